"""Asks whoever sits at the terminal, and prints what they said."""

import sys

import anyio

from shelltie.approval.broker import Broker
from shelltie.approval.question import Question
from shelltie.frontends.cli.tty_prompt import TerminalChannel
from shelltie.model import Command
from shelltie.verdict import Rating, Verdict


async def main() -> None:
    broker, channel = Broker(), TerminalChannel()
    broker.add(channel)
    sys.stdout.write(f"can_ask={channel.can_ask}\n")
    sys.stdout.flush()
    question = Question.about(Command("rm -rf build"), Verdict(Rating.DANGEROUS), "local")
    answer = await broker.ask(question, 10)
    sys.stdout.write(f"allowed={answer.allowed} by={answer.by}\n")


anyio.run(main)
