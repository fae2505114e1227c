"""The one recursion: sums over trees from the leaves up and from the root down, and draws by it."""
