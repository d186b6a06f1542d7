"""Control socket: how a person's commands reach every process of the same user that runs commands.

Responsibilities: a Unix socket for each in a directory of mode 0700; a JSON line for each request
and answer; the kernel says who connected, and only a person may steer or approve.

Flow at a glance:
1. `client.servers` finds sockets in the directories of `socket_dirs`.
2. `client.ask` sends a line of `line_format`; `server` reads it and checks the `peer`.
3. `runs`, `questions` or `watch` answer it.
4. A monitor has a socket of its own there; `event_push` connects to it.

Files, in reading order:
  socket_dirs  where sockets are
  line_format  request and answer, a JSON line each
  peer         peer credentials
  server       the socket of a server
  client       the other end
  async_client the same, without threads
  run_row      a run in `ps`, at both ends
  overview     a run for `web` and `top`
  runs         ps, logs, send, resize, extend, kill
  question_row a question, at both ends
  questions    pending, approve, deny
  hook_judge   verdicts for the hooks of agents
  hook_requests  which hooks a server answers
  event_push   events as they happen, to monitors
  watch        events, metrics, health
  monitor_socket  hears events of every process
  question_card  a question with nothing hidden, for the web page
  live_rows    all servers, runs and questions, kept current for `web` and `top`
  presence     the socket of who is no server: answers are loaded when somebody asks
"""
