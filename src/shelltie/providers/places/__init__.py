"""Where else can it run? Places: commands on other machines, on keepers that stay there.

Responsibilities: put a keeper on the other side and start it; a byte stream to it; hold what runs
there while the connection is lost and come back to it.

Flow at a glance:
1. A place of the settings has an engine (`engine`), which launches keepers and opens streams.
2. `payload` is the program that is copied there, once for each of its versions.
3. `provider` has commands run there; keeper/lasting_link.py outlasts a lost connection.

Files, in reading order:
  engine       the protocol of an engine
  payload      the keeper for the far side, and the scripts that put it there
  ssh          the engine of hosts that are reached by ssh
  ray/         actors of a Ray cluster
  provider     PlaceProvider: what the rest of shelltie sees of a place
  kubernetes/  pods
"""
