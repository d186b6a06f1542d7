"""What stays open? Interactive sessions: REPLs, dev servers, prompts, persistent shells.

Responsibilities: input goes in, output is read by position; a read returns when the output has
settled; what is typed into a shell is judged; sessions belong to their owner and expire.

Flow at a glance:
1. `registry` opens a session around a run; `id_counter` gives its id.
2. `session.exchange` writes input (`keys`, judged by `typed_input`) and reads.
3. `wait_rule` says when the output is an answer; `pattern_search` when a text has come.
4. `shell` gives commands to a shell through `shell_pipe`, and finds their ends by `shell_marks`.

Files, in reading order:
  session         a run that stays
  registry        ids, owners, quotas
  staying_sessions  those that outlived their server
  id_counter      numbers that are never given twice
  wait_rule       when output is an answer
  pattern_search  waitFor
  keys            ctrl-c, up, enter
  typed_input     what is typed is judged
  line_readings   what a typed line may mean
  shell           a shell that stays
  shell_pipe      how it gets its commands
  shell_marks     where a command begins and ends
"""
