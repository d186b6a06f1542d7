"""How long may it take? Timeout policy: categories, patterns and learned limits.

Responsibilities: a total and a silence limit for every command, each with its source; a policy
file that is reloaded when it changes; limits that experience may raise, never lower.

Flow at a glance:
1. `policy_file` finds and reads the JSON; `policy` parses it (`older_format` first, if needed).
2. `resolve` matches the command's parts, and takes the call's own limits before the policy's.
3. `experience` may raise them to what such commands needed before.

Files, in reading order:
  policy               categories and patterns
  default_policy.json  the policy that comes with us
  policy.schema.json   what a policy's file may say
  older_format         the older way to write them
  policy_file          the file on disk
  resolve              the limits of one command
  experience           what is usual, and what follows
  lint                 traps in patterns
"""
