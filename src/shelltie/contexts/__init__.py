"""What may a task run? Task contexts: allowlisted commands in a directory of their own.

Responsibilities: a context has a directory, variables and a queue; only programs of the allowlist
run in it, without a shell and with arguments that pass a filter.

Flow at a glance:
1. A front-end asks `registry` to open a context; `fields` validates what it may be.
2. `execute`: `allowlist` and `program_access` find the program, `argument_filter` looks at the
   arguments.
3. `context` queues the command, and has the supervisor run it.
4. Contexts expire when they are idle, and all end with their supervisor.

Files, in reading order:
  context           one task's directory, environment and queue
  registry          ids, owners, quotas, closing
  fields            validation of each field
  allowlist         the allowed programs, and their file
  tools-allow.json  the allowlist that comes with us
  program_access    which file a name stands for, and who could replace it
  argument_filter   what arguments may be
"""
