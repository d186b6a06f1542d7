"""TerminalService: a Python facade for programs that hold many agents.

Responsibilities: providers behind one protocol, a strict configuration, tools for a chat.

Flow at a glance:
1. `settings` validates the section `terminal`.
2. `service` calls the provider; `local_terminal` is the one on our engine.
3. `tools` offers its methods as chat tools.

Files, in reading order:
  terminal_provider  the protocol: options, results, TerminalProvider
  settings           the section `terminal`
  service            TerminalService
  local_terminal     our engine as a provider
  tools              chat tools, and the plugin
"""
