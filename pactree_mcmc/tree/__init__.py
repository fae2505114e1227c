"""What a tree is: flat arrays with written invariants, routing of rows, export."""
