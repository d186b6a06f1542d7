"""The web page of `shelltie web`: everything that runs for a user, live, and what waits for them.

Responsibilities: loopback only; a token for those who look and one for those who steer; what every
server tells, in one stream; a command of ours cannot steer through it.

Flow at a glance:
1. `server` listens and prints two links; `access` lets only those in who show a token.
2. `stream` sends each page what changed in `control/live_rows`, and the output that it follows.
3. `routes` hands what a person does to the control socket, on behalf of the browser (`tcp_peer`).

Files, in reading order:
  server      start, links, browser
  access      Host, Origin, tokens, security headers
  tcp_peer    which process is at the other end of a connection
  stream      rows and output to one page
  steering    answer, extend, kill, type, resize
  past        history, timeline and replay from the journal
  trials      changes of a command on trial: look, apply, discard
  figures     policy with hit counts, health
  routes      the paths of the page and of its API
"""
