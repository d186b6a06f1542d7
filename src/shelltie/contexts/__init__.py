"""contexts."""
