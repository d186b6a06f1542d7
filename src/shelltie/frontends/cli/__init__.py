"""The command line: `shelltie`, its subcommands, its tables and exit codes.

Responsibilities: argument parsing, output for people and `--json` for programs, exit codes as GNU
timeout has them. Start-up matters: only the named subcommand is imported.

Flow at a glance:
1. `main` parses with `parser`, and imports `commands/NAME.py`.
2. The command works here (run, check, audit), or over the control socket (ps, kill, approve).
3. `console` prints; an error becomes one line on stderr and an exit code.

Files, in reading order:
  main           entry point, dispatch, exit codes
  parser         the grammar
  shelltie_sh    the program shelltie-sh
  help_text      groups and examples of `--help`
  console        colours, tables, JSON, error messages
  commands/      one file for each subcommand, named as typed
  top/           the screen of `shelltie top`
  find_run       a run or session in all servers
  find_staying   what outlived its program
  hold_staying   holds it while a command looks at it
  detached_run   run --detach
  find_question  a pending question in all servers
  open_trials    trials for those who apply, discard or undo
  watch_pending  pending --watch: answers questions with single keys
  tty_prompt     asks the person at the terminal
  pass_through   a run's output to our own stdout
  past_output    recorded output of past runs
  run_details    all that is on record about one
  monitor_rows   an event in a row of `monitor`
  safe_replay    escape sequences that may be replayed
  html           HTML pages without scripts
  html_report    the page of `report`
  checkup        what `doctor` looks at
  client_checkup  what of shelltie is in each client
  finding        one thing that `doctor` looked at
"""

from shelltie.basics.lazy_module import import_rare_later

import_rare_later()
