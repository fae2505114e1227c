"""Reading of files, in a layer above everything that they may contain."""
