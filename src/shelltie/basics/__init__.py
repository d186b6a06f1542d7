"""basics."""
