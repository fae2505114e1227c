"""Writing and reading of files. The classes that a file may contain are registered where they are defined."""
