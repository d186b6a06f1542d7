"""IS IT HARMLESS? What we think of every command in a text, by rules that can be read."""
