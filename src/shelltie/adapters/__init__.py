"""Where does a framework's agent run? Adapters: shelltie as the sandbox of agent frameworks.

Responsibilities: each module fits the seam of one framework for "where commands run", in that
framework's words: its time limit becomes ours, its cancellation ends the tree, its exceptions are
raised as it expects. A module imports its framework, which is an extra (`shelltie[inspect]`), and
nothing imports the module but the framework or its user. docs/adapters.md says what each cannot do.

Flow at a glance:
1. The framework calls its interface; the adapter calls a `Terminal` (`frontends/api.py`).
2. The `Result` becomes what the framework expects: a value, or one of its exceptions.
3. When the framework closes the place, the terminal is closed, and nothing is left.

Files, in reading order:
  workspace_files files with the exceptions of Python
  raw_output      the bytes of a run, for frameworks that clean them themselves
  mini_swe_agent  an Environment for mini-swe-agent
  adk             a BaseEnvironment for Google ADK
  command_tool    the tool that models call, for frameworks with functions
  pydantic_ai     a toolset and a workspace backend for pydantic-ai
  langchain       a tool and an execution policy for LangChain
  leashed_shell   the shell of that policy, as a program
  claude          an in-process server and permissions for the Claude Agent SDK
  smolagents      a tool for smolagents
  judged_variables  PATH and such, as part of a command
  throwaway       a yes for what runs isolated in a directory made for it
  inspect_ai      a SandboxEnvironment for Inspect
  swe_rex         a deployment and runtime for SWE-ReX, and so for SWE-agent
  swe_rex_session its bash sessions
  openai_agents   a sandbox client for the OpenAI Agents SDK
  openai_agents_pty  its processes on terminals
"""
