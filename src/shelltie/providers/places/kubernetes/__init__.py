"""How does it run in Kubernetes? Pods: one for each command, with a keeper that stays in it.

Responsibilities: a pod from the settings and a template of the user's; the keeper put into it by
exec; a stream to it; pods removed at the end, and those of servers that are dead swept.

Flow at a glance:
1. `engine` takes a pod of the `pool`, or makes one (`pod_manifest`), and waits until it runs.
2. One exec puts the keeper there and starts it (`keeper_scripts`); the pod's own process watches
   it, and ends with it: then the pod is over, whether a server lives or not.
3. Each stream is another exec, of the keeper's bridge (`exec_stream`).
4. `owner_lease` says that this server lives; what belongs to one that does not is swept.

Files, in reading order:
  engine          launches, reaches and removes pods
  pod_manifest    what a pod is
  pod_trouble     why one does not start, in words
  keeper_scripts  what runs in a pod, before and beside the keeper
  api             requests to the API server, and its refusals in words
  exec_stream     exec over a WebSocket
  pool            pods that are kept ready
  owner_lease     the heartbeat of a server, and the sweep of pods
  rights          RBAC and NetworkPolicy, as a person applies them
"""
