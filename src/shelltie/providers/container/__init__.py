"""Containers: Docker or Podman, one for each workspace, with a keeper inside.

Responsibilities: an image that the user names, read-only, with the workspace mounted; none is left
behind.

Flow at a glance:
1. `provider` opens a container for the workspace, or takes the open one of the pool.
2. `mounts` writes the specification, `create` has the engine make it (`engine_api`).
3. The keeper inside connects to our socket; commands are spawned through it.

Files, in reading order:
  provider    ContainerProvider
  mounts      the specification
  create      making, sweeping
  engine_api  the engine's HTTP API
"""
