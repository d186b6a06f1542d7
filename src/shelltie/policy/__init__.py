"""MAY IT RUN, HOW LONG? What we think of a command, from one policy."""
