"""What a row is: columns, categories, missing cells, and the coding of features."""
