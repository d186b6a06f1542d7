"""What happened? Audit journal: SQLite, written first, chained by hashes.

Responsibilities: nothing starts before it is on record; a changed or missing entry shows; what a
crashed server left is settled; history for learned limits.

Flow at a glance:
1. `journal` hears every event first; `facts` makes facts without secrets.
2. `append` writes chain entries and rows of `tables`, on the loop, or in a thread if it must wait.
3. `writer` holds the file, and runs `recovery` and `retention` in that thread.
4. Readers use `queries`; `verify` and `anchor` prove the chain.

Files, in reading order:
  journal    on record before it starts
  short_lived  the same for a program that leaves at once
  facts      event → fact
  chain      hashes
  append     fact → entry and rows
  tables     rows that follow from the chain
  database   schema, opening, errors
  writer     who holds the file
  queries    reading while others write
  past_runs  the history of commands
  recording  what one of them printed, and when
  policy_hits  how often each rule applied
  verify     rebuild and compare
  anchor     heads of the chain elsewhere
  recovery   after a crash
  retention  how long
  history    how long such commands took
"""
