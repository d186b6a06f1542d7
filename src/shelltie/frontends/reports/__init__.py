"""JSON reports: what every front-end says about runs, sessions, contexts and events.

Responsibilities: one shape for each thing, for all who ask; names of states and codes; no secrets.

Flow at a glance: an Outcome, Session, Context or Event comes in, a dict in camelCase goes out.

Files, in reading order:
  state_names      how each front-end names the same state, limit and end
  verdict_report   why, how long, and what is usual
  run_report       Result: a run
  text_for_models  the same as a text
  session_report   SessionReport: a session
  context_report   task contexts
  agent_report     agent tasks
  lost_run         runs whose server died
  question_report  an approval question without secrets
  hidden_operands  whether a mark hides what a command acts on
  event_report     every event
  terminal_events  `terminal:command:executed` and its kin
  policy_report    the timeout policy
"""
