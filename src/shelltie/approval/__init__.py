"""Who says yes? Approval of commands by a person: questions, channels, answers.

Responsibilities: one question for each command that a profile says to ask about; every channel is
asked at once, and the first answer counts; silence is no; a command cannot approve itself.

Flow at a glance:
1. `running/admission.py` makes a Question and hands it to the Broker.
   It waits as long as `ApprovalTimeouts` in `settings/all_settings.py` says.
2. The Broker asks each Channel (a client's dialogue, a tty, a callback) and lists it as pending.
3. `shelltie approve` answers over the control socket, unless `ancestry` finds one of our leashes.
4. An answer "always" is kept in the file of `always`.

Files, in reading order:
  question    Question, Answer, Scope
  broker      asks every channel; the first answer wins
  notice      the words of a notification
  card        the question as a person reads it
  always      commands that were approved for good
  git_facts   what git says of a repository, without running what that configures
  kinds       kinds of commands that can be proved
  kind_rules  kinds that were allowed for a workspace
  deletions   what `rm` deletes, where the parser proved it
  decision    what a profile decides, and what nothing could undo
  ancestry    whether a process descends from one of our leashes
"""
