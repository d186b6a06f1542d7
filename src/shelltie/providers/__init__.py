"""Where does it run? Providers: each place starts a command and hands back its process.

Responsibilities: the protocol of a place to run and its contract suite; this machine, a bubblewrap
sandbox, a container; limits by cgroup; a workspace that cannot become a way out.

Flow at a glance:
1. `assemble.py` makes every provider; `running/placement.py` chooses one, which reserves a sandbox
   of its `pool`.
2. What is seen and written there follows from `workspace/`, and the provider's own mounts.
3. `spawn` opens the streams, and asks the keeper in that place for a leash.

Files, in reading order:
  provider     the protocol
  contract     what each promises, as checks
  spawn        a command on a leash
  cgroup       limits for a whole tree
  local        this machine
  stream_ends  the local ends of a command on a keeper that stays
  staying      this machine, for what outlives the server
  policies     what holds in every sandbox and container
  lazy         a place that is imported when it is first used
  pool         sandboxes that stay open
  listening_ports  what a session listens on in a sandbox
  port_forward     the same, reached at 127.0.0.1
  loopback_forward  one service outside, reached from a read-only view
  socket_stream    bytes from one socket to another
  proxy/       a network that is a list of hosts
  files/       the files where commands run
  workspace/   what an isolated command may change
  bubblewrap/  sandbox
  container/   Docker, Podman
  places/      other machines: ssh, Kubernetes, Ray
"""
