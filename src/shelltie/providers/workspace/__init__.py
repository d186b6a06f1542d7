"""Workspace guards: what in a writable directory stays read-only for isolated commands.

Responsibilities: what git, editors and agents run or obey by themselves cannot be changed from
inside, nor come to be unnoticed.

Flow at a glance:
1. `boundaries` says which directory may be a workspace, and which names are obeyed.
2. `git` finds hooks and settings, `guards` lists and remembers all that must stay.
3. `inotify` tells when something forbidden appears; `watched_names` puts it aside.

Files, in reading order:
  boundaries  which directory, which names
  watched_names  what no mount can guard
  held_tree   paths below a directory that is held open, through no link
  git         hooks, config, repositories
  guards      what must stay, by inode
  new_repositories  what git would run of those that commands make
  inotify     what appears
"""
