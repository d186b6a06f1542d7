"""What did a trial change? The file-system half of trial runs: read, apply, undo.

Responsibilities: a command that ran on a copy-on-write view of a workspace has changed nothing yet;
what it changed is read, shown, decided about, and applied all or nothing. Nothing is ever reached
through a link. Everything here blocks: call it from a thread.

How it is called: `file_clock` right before the trial, on the workspace's file system. The overlay
is mounted with `userxattr`, without `redirect_dir`, `metacopy` and `index`; `volatile` spares a
sync of the whole file system. `read_change_set` when it is over and unmounted, as often as needed.
`apply_changes` with an empty directory for its undo; `undo_size` tells before whether that will
do. To discard is `remove_tree(upper)`. `recover(undo_dir)` wherever one is found after a crash.

Flow at a glance:
1. `overlay_upper` compares the upper directory with the workspace: a `ChangeSet`.
2. `effect_rules` decides about it, with what git knows.
3. `apply` refuses or merges what others changed, and lays ready what cannot just be renamed.
4. `transaction` renames everything into place, by a journal; what was there goes to the undo.
5. `undo` does the same backwards, if nothing was changed since; `recover` after a crash.

Files, in reading order:
  unified_diff   git's diff format, with bounded cost
  change_set     Change, ChangeSet: what happened, as data
  overlay_upper  read_change_set(): the upper directory of an overlay
  tree_copy      copies of trees, and their removal
  renaming       renameat2: move, exchange
  transaction    steps, their journal, rollback
  git_knowledge  what git tracks, ignores and obeys of it
  effect_rules   decide(): apply unasked, or ask
  guarded_changes  guarded_paths(): what a sandboxed command never writes
  merge          three-way merge of texts
  apply_plan     the steps for a change set
  apply          apply_changes(), undo_size()
  undo           undo(), recover()
  trial_store    trials on disk: numbers, locks, bounds
"""
