"""The systems of five papers, a folder for each school."""
