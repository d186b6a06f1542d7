"""What shelltie costs, each time beside the least that could do the same."""
