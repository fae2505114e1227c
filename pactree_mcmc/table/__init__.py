"""Tables: columns, categories, missing cells, and the coding of features."""
