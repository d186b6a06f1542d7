"""MCP tools: schemas, argument validation and answers of each tool.

Responsibilities: what a model reads about a tool, what it may pass, what it gets.

Flow at a glance:
1. `registry` lists the tools that the settings enable.
2. A tool validates its arguments with `schema`, has the engine act, and answers with `reports/`.

Files, in reading order:
  registry         which tools there are
  schema           JSON Schema from dataclasses; validation; results
  run              `run`
  trials           `trial`
  session_schemas  schemas and descriptions of the session tools
  sessions         `bash`, `terminal_*`
  contexts         `terminal_create_session` and its kin, for task contexts
  agent            `agent_task`, `agent_wait`
"""
