"""What is set? Configuration: layers, validation, trust, file locations.

Responsibilities: one frozen Config in which each value knows its origin; a project's file may only
tighten until a person trusts it; the system's file may lock keys.

Flow at a glance:
1. `paths` says where files are, `files` reads them.
2. `layers.load` merges them into a Config of `all_settings`; `checks` validates each value.
3. `trust` tells whether a project's file may loosen anything.

Files, in reading order:
  all_settings         every setting, as the objects that the parts take
  config               Config: the sections, and the table of all keys
  checks               what a setting may be
  places               where commands can run beside this machine
  network_list         hosts that a sandbox may reach
  network_groups.toml  hosts of pypi, npm and the like, by group
  layers               files, variables and command line → Config
  describe             descriptions, from the docstrings of fields
  edit                 one key of a file changed, comments kept
  paths                where our files are
  files                small files, read with care
  trust                trusted projects
  toml_list            a person's decisions in a TOML file
"""
