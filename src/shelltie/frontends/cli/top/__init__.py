"""`shelltie top`: the page in a terminal, drawn by Textual, which is an extra (`shelltie[top]`).

Responsibilities: every run and question of the user's servers on one screen, and the keys that
steer them. Nothing is done without being asked back, and nothing that a program prints is obeyed.

Flow at a glance:
1. `control/live_rows` keeps the rows current; `app` draws them by `table` four times a second.
2. A key opens a screen of `dialogs` or `output`.
3. What a person does goes to the control socket of the server that it concerns.

Files, in reading order:
  table    rows as lines of text with styles
  app      the screen with everything, and its keys
  dialogs  a question with its card, asking back, keys
  output   what a run prints
"""
