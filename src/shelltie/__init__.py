"""A terminal for AI agents, on a leash."""
