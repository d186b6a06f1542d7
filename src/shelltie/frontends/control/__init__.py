"""Control socket: how a person's commands reach every running server of the same user.

Responsibilities: a Unix socket for each server in a directory of mode 0700; a JSON line for each
request and answer; the kernel says who connected, and only a person may steer or approve.

Flow at a glance:
1. `client.servers` finds sockets in the directories of `socket_dirs`.
2. `client.ask` sends a line of `messages`; `server` reads it and checks the `peer`.
3. `runs`, `questions` or `watch` answer it.

Files, in reading order:
  socket_dirs  where sockets are
  messages     request and answer, a JSON line each
  peer         peer credentials
  server       the socket of a server
  client       the other end
  run_row      a run in `ps`, at both ends
  runs         ps, logs, send, resize, kill
  questions    pending, approve, deny
  watch        events, metrics, health
"""
