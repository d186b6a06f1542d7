"""A server that does nothing but ask: a JSON object with a command per line in, answers out.

It says `{"asked": ID}` when a question can be answered, and `{"id", "allowed", …}` when it was.
"""

import json
import os
import sys
from typing import Any

import anyio
import anyio.to_thread

from shelltie.approval.always import Approved
from shelltie.approval.broker import Broker
from shelltie.approval.question import Answer, Question
from shelltie.frontends.control.questions import answerable
from shelltie.model import Command
from shelltie.settings.paths import user_file
from shelltie.verdict import Code, Rating, Reason, Span, Verdict


def say(**fields: object) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


class Announcer:
    """Asks nobody, but says what would have been asked."""

    name = "announcer"
    can_ask = True

    async def ask(self, question: Question) -> Answer | None:
        say(asked=question.id)
        return None


async def ask(broker: Broker, wish: dict[str, Any]) -> None:
    rating = Rating(wish.get("rating", "dangerous"))
    text = wish["command"]
    reason = Reason(Code.DESTROYS_DATA, rating, "deletes whole trees", Span(0, len(text)))
    command = Command(text, cwd=wish.get("cwd", "/"), env=wish.get("env", {}))
    question = Question.about(command, Verdict(rating, (reason,)), "local", "a test")
    answer = await broker.ask(question, wish.get("patience"))
    say(id=question.id, allowed=answer.allowed, by=answer.by, reason=answer.reason)


async def main() -> None:
    broker = Broker(Approved(user_file().with_name("approved.toml")))
    broker.add(Announcer())
    async with answerable(broker, os.environ) as control, anyio.create_task_group() as tasks:
        control.client = "asking.py"
        say(socket=str(control.path), pid=os.getpid())
        lines = anyio.wrap_file(sys.stdin)
        async for line in lines:
            tasks.start_soon(ask, broker, json.loads(line))
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(main)
