"""Is the other agent stuck? Agent tasks: limits, events and retry advice for a long-lived agent.

Responsibilities: limits that fit programs which think for minutes; the JSON events they print;
what to try after a failure; a watchdog for processes that were not started by us.

Flow at a glance:
1. `frontends/mcp/tools/agent.py` starts the agent as a session with limits of `agent_limits`.
2. What it prints goes through `jsonl_events`; each event counts as a sign of life.
3. After its end, `advice` says whether another attempt makes sense.

Files, in reading order:
  agent_limits      defaults by mode, and the server's caps
  jsonl_events      JSON Lines → events
  advice            try again, and how
  timeout_watchdog  TimeoutWatchdog, for a process that the caller started
"""
