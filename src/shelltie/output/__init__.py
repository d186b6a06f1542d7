"""What did it print? Output capture: bytes as they came, text when it is read.

Responsibilities: bounded memory, a capped file, nothing silently dropped; decoding, cleaning and
redaction on the way out only.

Flow at a glance:
1. `reader` reads pipes and ptys into one shared buffer.
2. `store` keeps head and tail (`head_tail`), spools what is long (`spool`, `timing_file`), and
   writes what is short when it is over (`short_output`).
3. On reading, `text` decodes and cleans, `redact` removes secrets.
4. `screen` draws a full-screen program with the `emulator`.

Files, in reading order:
  reader                 pipe or pty on the event loop
  store                  everything one run printed, by position
  head_tail              the first and last bytes
  spool                  the capped file
  spool_folder           the directory of spools
  short_output           the file of a short output
  stream_origins         which stream each stretch of it is of
  timing_file            when each piece was printed
  text                   bytes → readable text
  char_index             characters ↔ bytes
  redact                 secrets out of text
  secret_shapes          what secrets look like
  secret_variable_names  which variables hold them
  full_screen            whether a program draws on the whole screen
  screen                 what it shows now
  emulator               pyte
"""
