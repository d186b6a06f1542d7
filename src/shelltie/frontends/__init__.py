"""WHO ASKS? Thin faces of one engine."""
