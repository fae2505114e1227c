"""Trees: flat arrays with written invariants, routing of rows, export."""
