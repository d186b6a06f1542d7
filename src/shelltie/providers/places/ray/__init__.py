"""How do commands get onto a Ray cluster? One detached actor for each, which carries its stream.

Responsibilities: ask Ray for an actor with the place's resources, start the keeper that stays on
its node, and carry bytes between us and that keeper through Ray's own calls, so that what protects
the cluster (its token, TLS, a firewall) protects these as well.

Flow at a glance:
1. `engine` starts the driver, a program of its own in the Python that has the cluster's Ray.
2. driver.py joins the cluster, creates the actor, and sends it the keeper's program once a node.
3. actor.py starts the keeper; its lease, and no actor, decides how long that stays.
4. A stream is a socket that the driver is passed: it pumps it through calls of the actor.

Files, in reading order:
  engine          the PlaceEngine: launch, open_stream, destroy, list
  driver_process  the server's side of the driver: requests, answers, its end
  driver          the program that talks to Ray
  actor           what runs on the node
"""
