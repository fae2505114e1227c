"""How likely a node splits."""
