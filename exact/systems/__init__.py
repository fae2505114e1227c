"""The methods of five papers, in one folder for each line of work."""
