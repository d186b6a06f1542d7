"""Who asks? Front-ends: MCP, ACP, the command line, Python; thin faces of one engine.

Responsibilities: turn a request into a Command and RunOptions, and an Outcome into what its
protocol says. No front-end decides what may run or for how long, and none knows another.

Flow at a glance:
1. A front-end parses its request, and has the supervisor start the command.
2. It waits as long as its client does.
3. `reports/` makes JSON of the run, the same for everyone.

Files, in reading order:
  about     name and version
  jsonl     JSON Lines, and stdin and stdout for us alone
  fd_io     reads and writes descriptors in the event loop
  reports/  what every front-end says about runs, sessions, contexts, events
  dry_run   what would happen to a command
  control/  the Unix socket of each server, for ps, kill, approve
  files     Terminal.files
  api       shelltie.run, Terminal
  terminal_thread  a terminal in a thread, for callers of any thread and event loop
  sync_terminal  SyncTerminal
  staying_holder  holds what stays while a person looks at it
  service/  TerminalService
  mcp/      the MCP server
  acp/      the ACP server, and parts for agents and editors
  web/      the page of `shelltie web`
  clients/  agents and editors into which shelltie is installed
  cli/      the command line
  entry     the program `shelltie`
"""
