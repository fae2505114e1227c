"""Writing and reading of files. A class that a file may contain is registered where it is defined, by `kept`."""
