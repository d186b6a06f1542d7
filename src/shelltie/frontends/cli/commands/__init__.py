"""Subcommands of `shelltie`: one file each, named as it is typed, with `main(arguments)`.

Responsibilities: what the one subcommand does, and its exit code. Its options are in `parser`.

Flow at a glance: `cli/main.py` imports the named file and calls its `main`.

Files, in reading order:
  run         one command
  changes     what was changed on trial
  apply       makes it real
  discard     forgets it
  undo        takes back what was applied
  check       dry run
  ps          what runs
  logs        output
  attach      a session's terminal
  send        input
  kill        end
  pending     open questions
  approve     yes
  approvals   lists and revokes what is allowed for good
  deny        no
  policy      timeout policy
  config      settings
  trust       a project's settings
  places      rights of places
  history     past runs
  stats       usual durations
  replay      output at its speed
  export      output as a file
  report      HTML page
  audit       the journal
  monitor     live events
  web         the page
  top         the same in a terminal
  metrics     Prometheus
  doctor      diagnostics
  paths       files in use
  demo        a silent command and its end
  completion  bash, zsh, fish
  install     adds shelltie to a client
  uninstall   removes it
  hook        what an agent's hook calls
  acp         ACP server
  mcp         MCP server
"""
