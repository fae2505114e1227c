"""Reading files: above all that they may hold."""
