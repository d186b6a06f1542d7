"""JSON reports: what every front-end says about runs, sessions, contexts and events.

Responsibilities: one shape for each thing, for all who ask; names of states and codes; no secrets.

Flow at a glance: an Outcome, Session, Context or Event comes in, a dict in camelCase goes out.

Files, in reading order:
  state_names      how each front-end names the same state, limit and end
  run              Result: a run
  text_for_models  the same as a text
  session          SessionReport: a session
  context          task contexts
  agent            agent tasks
  lost_run         runs whose server died
  question         an approval question without secrets
  hidden_operands  whether a mark hides what a command acts on
  events           every event
  terminal_events  `terminal:command:executed` and its kin
  policy           the timeout policy
"""
