"""Which files are there? Files of the place where commands run: read, write, list, copy trees.

Responsibilities: a path never leads out of the workspace, whatever commands do with links
meanwhile; what commands in that place may not read or change cannot be read or changed here.

Flow at a glance:
1. A provider that has files hands out a `PlaceFiles` for a workspace.
2. `workspace_files` finds the path by descriptors and acts on it there, in a thread.
3. `tree_transfer` copies trees between a workspace and a directory of this machine.

Files, in reading order:
  place_files      the protocol, and what is told of an entry
  file_rules       what is masked, and what is read-only
  beneath          a path, with its links followed, below a directory
  file_content     bytes of a regular file: read, replaced at once
  workspace_files  all of it on this machine
  tree_transfer    a whole tree, in and out
"""
