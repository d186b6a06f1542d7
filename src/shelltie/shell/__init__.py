"""What does this text do? bash parser: facts about shell text, without opinion. Pure.

Responsibilities: every command, word, expansion and redirection with its place; whatever cannot be
proved is a doubt, never a guess; a second parser must agree.

Flow at a glance:
1. `parse` reads text: `lexer` makes words, `grammar` commands, into a `script`.
2. `doubts` lists what keeps it from being proved.
3. `shfmt` compares with the second parser's tree.

Files, in reading order:
  script   the syntax tree
  parse    text → Script
  lexer    quoting, words, expansions
  grammar  simple and compound commands
  doubts   what cannot be proved
  shfmt    the second parser
  split    a rough splitter, for limits
  shape    what kind of command it is
  invocation  options of a shell program, and the text of -c
"""
