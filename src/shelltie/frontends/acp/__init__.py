"""ACP (Agent Client Protocol): terminals for editors and their agents, on our engine.

Responsibilities: a proxy between editor and agent that serves `terminal/*` itself; the same five
methods for Python clients; a timeout helper for agents. `shelltie.acp` is its public home.

Flow at a glance:
1. `server` starts the agent on a leash and the proxy in front of it.
2. `proxy` forwards each line, and gives `terminal/*` to `methods`.
3. `methods` validates, `terminal_host` runs it on the supervisor, `permission` asks the editor.
4. `display` streams output to the editor in one of `display_formats`.

Files, in reading order:
  protocol         ACP's records and errors
  timeouts         how long a terminal may run
  terminal         one terminal
  terminal_host    the five methods on a supervisor
  diff_content     changes as blocks that an editor shows as a diff
  permission       an approval question as a permission request
  methods          the five methods as JSON
  jsonrpc          messages as lines; what is ambiguous is refused
  display_formats  as _meta, as text, as the v2 draft
  output_follower  what of one terminal's output the editor has
  display          our terminals in an editor
  proxy            between editor and agent
  agent_process    the agent on its own leash
  own_commands     MCP server and shell prefix for commands that an agent runs itself
  server           `shelltie acp -- AGENT…`
  sdk_client       HostedTerminals, for clients on the official SDK
  with_timeout     execute_with_timeout, for agents
"""
