"""How is a tree held? Process supervision: one leash per command, one keeper per place.

Responsibilities: start a command with its descriptors, signal its whole process tree, and prove
that nothing of it is left: the leash is a child subreaper that kills until the kernel says ECHILD.
If this process dies, the sockets close and everything ends.

Flow at a glance:
1. `link` starts a keeper (`start`, `binaries`) and sends it a RUN frame (`protocol`).
2. keeper.c forks a leash; leash.c starts the command, and says started, exited, gone.
3. A byte to the leash is a signal for every descendant; end of file means kill.
4. A leash that does not answer is shot; the keeper sweeps after it, and says swept.
5. A keeper that stays outlives its server, and is reached through a byte stream (`stream_link`).

Files, in reading order:
  protocol          every word they say
  link              the server's side
  keeper.c          forks leashes, sweeps
  leash.c           holds one command's tree
  tree.c            finds and signals descendants
  enter.c           a program in a living sandbox, on an overlay: setns, overlayfs
  pykeeper          the same in Python
  stream_protocol   every word on the stream of a keeper that stays
  stream_link       the server's side of that
  lasting_link      the same to another machine: heartbeat, reconnect
  stay_folder       where keepers that stay are found
  stay.c            a keeper that stays: requests, lease, limits
  held_run.c        one command of it: output at absolute offsets, what its leash said
  stream.c          who is connected to it: authentication, frames
  bridge.c          stdin and stdout to a keeper's socket, where that cannot be forwarded
  spool.c           output in a file of bounded size
  pystay            the same in Python
  pystream          a part of that: streams, spools, clients
  pybundle          the Python keepers in one file, for another machine
  binaries          which of the two is used
  start             starts it
  sigstop           a keeper that was stopped
  joined_link       a keeper in a container
  pid_namespace     its pids in our numbers
  process_identity  a process beyond its pid
  helper_program    shfmt, git, ps: bounded children of our own
  hardening         PR_SET_DUMPABLE, bare environment
"""
