"""Writing files: below all that they may hold; classes enter what is kept where they are defined."""
