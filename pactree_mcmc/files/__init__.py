"""Writing and reading of files. A class that a file may contain is registered by `register_class`."""
