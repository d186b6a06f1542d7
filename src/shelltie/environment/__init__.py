"""What is it given? Environment variables of a child process.

Responsibilities: withhold secrets and agent sockets, silence prompts and pagers, apply what the
call changes, refuse names that decide which code runs.

Flow at a glance:
1. `inherited` reads our own environment, `child.sift` takes secrets out.
2. `child.build` adds what keeps programs from prompting, and the call's changes.

Files, in reading order:
  inherited       our own environment
  masked_places   where credentials are kept on disk: a read-only view masks them
  variable_kinds  what a variable is, by name and value; secret names: output/secret_variable_names
  child           the environment that a command gets
"""
