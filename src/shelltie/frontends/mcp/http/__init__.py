"""MCP over HTTP: listener, access control, clients and their end.

Responsibilities: loopback unless there is TLS; Host, Origin and bearer tokens are checked before
anything is parsed; what belongs to a client that stays away ends.

Flow at a glance:
1. `address` binds, `listener` accepts with limits.
2. `auth` admits a request, `request_ids` refuses ids that are in flight.
3. `clients` knows whose it is; the SDK's manager does the rest.

Files, in reading order:
  server       start, serve, shutdown
  address      HOST:PORT, safe binding
  listener     connection limits
  auth         Host, Origin, tokens
  request_ids  unique JSON-RPC ids
  clients      who is connected, and who has left
"""
