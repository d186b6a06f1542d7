"""Agents and editors that shelltie is installed into: where their configuration is, and its format.

Responsibilities: to add and remove the MCP server, hooks and the shell of shelltie, through a
client's own command line where it has one, else in its file; the rest of a file stays as it is.

Flow at a glance:
1. `registry` knows each client: program, files, keys, what an entry looks like.
2. `changes` makes a list of steps of it; each is printed or done.
3. `config_file` writes a file at once and whole, with a backup; the formats edit its text.

Files, in reading order:
  registry       the clients
  changes        install and uninstall as steps
  status         what is installed where
  config_file    read, back up, replace
  hook_program   what a client's hook calls before each command
  hook_health    whether a client calls it, and can start it
  judge_alone    its verdict when no server runs
  json_comments  JSON with comments
  toml_table     one table of a TOML file
  yaml_block     one block of a YAML file
"""
