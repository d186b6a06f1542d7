"""HOW IS IT GOING? Runs, their clocks and their end."""
