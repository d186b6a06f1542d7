"""MCP server: tools, resources, elicitation, notifications and tasks, over stdio and HTTP.

Responsibilities: both eras of the protocol; each call comes back before its client gives up; a
client sees only what is its own.

Flow at a glance:
1. `stdio` or `http/` turns bytes into messages; the SDK dispatches to `server`.
2. `request` makes a ToolCall; `around_call` adds the approval channel, results and tasks.
3. `tools/` answers it; `run_to_session` turns a run that takes longer into a session.
4. `notify` sends progress and log messages meanwhile, `subscriptions` what has changed.

Files, in reading order:
  server           builds the server, serves
  stdio            the stdio transport
  first_answers    what a client is told first, kept from one server to the next
  early_reader     answers with it while the SDK is imported
  sdk_takeover     from the early reader to the SDK
  http/            streamable HTTP
  request          ToolCall: arguments, owner, caller, deadline
  around_call      what surrounds every call
  tools/           the tools
  client_timeouts  how long each client waits
  run_to_session   a run that outlives its call
  confirm          elicitation, in both eras
  notify           progress and log messages
  log_messages     their payload and level
  progress         the line of progress
  resources        what can be read
  recent_runs      the last results of each client
  subscriptions    who is told that it changed
  tasks_extension  tasks of the 2026 protocol
"""
