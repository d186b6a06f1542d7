"""bubblewrap sandbox: namespaces, mounts and a seccomp filter around a keeper.

Responsibilities: an isolated view in which only what is listed exists; no set-uid files, no
network where that is wanted.

Flow at a glance:
1. `provider` opens a sandbox for the workspace, or takes the open one of the pool.
2. `mounts` builds bwrap's options, `home` the part of the home, `seccomp` the filter.
3. bwrap starts a keeper inside; commands are spawned through it. One whose writes are kept apart
   has a keeper of its own there, which `overlay_mount` puts beside the first.

Files, in reading order:
  provider              BubblewrapProvider
  bwrap                 where the program is, and why it refused
  mounts                what is visible
  overlay               copy-on-write views of what may be written
  overlay_mount         the program that mounts them, also in a living sandbox
  kept_caches           what sandboxes add to the user's caches
  home                  toolchains, no credentials
  seccomp               BPF filter
  read_only_view        where what is rated safe runs
  find_project_secrets  .env files, which it masks
  docker_socket         the engine that it offers to docker
"""
