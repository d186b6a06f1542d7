"""HOW IS A TREE HELD? One leash per command, one keeper per place."""
