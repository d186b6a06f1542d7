"""ACP: terminals for editors and their agents, on our engine."""
