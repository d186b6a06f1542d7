"""How is it going? Execution engine: admission, runs, timeouts, and their end.

Responsibilities: every command is judged, recorded and placed before it starts; its limits hold;
its whole tree is ended; it ends with an Outcome, never an exception.

Flow at a glance:
1. `supervisor.start` builds the environment; `admission` judges, asks, and has it placed.
2. `options` and limits/ give the terms; the journal is flushed.
3. `run` spawns, reads output, asks `watchdog` what is due, and sends signals.
4. `activity` looks at the tree before a silence limit ends it.
5. `ending` makes the Outcome; `hints` say what to try next.

Files, in reading order:
  supervisor  owns every run
  command_check  whether the kernel could take it
  options     what a call wants, merged with defaults
  terms       what holds for one run
  admission   may it run, and where?
  placement   which provider
  on_trial    the providers of one command that writes apart
  trial_runs  what becomes of what it changed
  sandbox_writes  what a sandboxed command writes is applied at its end
  run         one command, from spawn to Outcome
  staying_note  what its next holder must know
  staying_run  one that outlives its server
  staying_runs  finds it again
  place_run   one on another machine
  watchdog    the state machine of the two clocks
  alarms      one heap of deadlines
  activity    does the tree work or wait?
  input_wait  does it wait for input?
  procfs      reading /proc
  stdin       input, with backpressure
  ending      what is learned about the end
  messages    warnings and failures, in sentences
  hints       what to try next
  tried_outside  blocked writes and hosts
  exit_meaning  exit codes that are an answer: `grep` without a match
  unusual     early warnings
  retry       another attempt; the circuit breaker
  login_path  PATH of the login shell
  interfaces  what the engine wants of others; the event bus
"""
