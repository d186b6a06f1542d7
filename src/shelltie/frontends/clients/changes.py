"""Install and uninstall as a list of steps: files to edit and programs to call, printed or done."""

import json
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from shelltie.basics.frozen import frozen
from shelltie.errors import CannotStart, ConfigWrong, InvalidParameters
from shelltie.frontends.clients import config_file, json_comments, status
from shelltie.frontends.clients.registry import Client, Entry, Environ
from shelltie.frontends.clients.status import SHELL_PREFIX

RunProgram = Callable[[Sequence[str]], tuple[int, str]]
_STARTED_BY = ("type", "command", "cmd", "args")
_ANOTHERS = "{}: {} is set to {} already, so it stays; remove it first"


@frozen
class FileEdit:
    """One change of a file's text; `shown` is what a person would write there by hand."""

    what: str
    file: Path
    edit: Callable[[str], str]
    shown: str
    may_make_directory: bool = False

    def describe(self) -> str:
        """For `--print`."""
        return f"{self.file}:\n{self.shown}"

    def new_text(self, old: str) -> str:
        """What the file would have instead of the old text.

        Raises: ConfigWrong if that cannot be said, or not be written.
        """
        try:
            new = self.edit(old)
        except ConfigWrong as error:
            raise ConfigWrong(f"{self.file}: {error}") from error
        if new != old:
            config_file.check_writable(self.file, make=self.may_make_directory)
        return new

    def do(self, _: RunProgram, before: str) -> str | None:
        """What was done; None if all is as it should be already.

        `before` is the text that the backup keeps: the one before all steps.

        Raises: ConfigWrong; then nothing was changed.
        """
        old = config_file.read(self.file)
        new = self.new_text(old)
        if new == old:
            return None
        backup = config_file.replace(self.file, old, new, before)
        kept = f" (as it was: {backup.name})" if backup is not None else ""
        return f"{self.what}: {self.file}{kept}"


@frozen
class ProgramCalls:
    """A client's own command line, called once or twice; its file tells whether that has helped."""

    what: str
    calls: tuple[tuple[str, ...], ...]
    file: Path
    done: Callable[[], bool | None]  # None: it cannot be told yet

    def describe(self) -> str:
        """For `--print`."""
        return "\n".join(map(shlex.join, self.calls))

    def do(self, run: RunProgram, before: str) -> str | None:
        """What was done.

        Raises: CannotStart, ConfigWrong; then the file is as it was.
        """
        for call in self.calls:
            code, said = run(call)
            if code != 0:
                self._restore(before)
                raise CannotStart(f"{shlex.join(call)} failed with {code}: {said.strip()}", 1)
        if self.done() is False:
            raise ConfigWrong(f"{self.file} has not changed, though {self.calls[-1][0]} said so")
        return f"{self.what}: {self.file}"

    def _restore(self, before: str) -> None:
        now = config_file.read(self.file)
        if now != before and before:
            config_file.replace(self.file, now, before, before)


Step = FileEdit | ProgramCalls


def install_server(client: Client, argv: list[str], environ: Environ, file: Path | None) -> Step:
    """The step that adds our MCP server."""
    what, entry = f"MCP server of {client.title}", client.entry(argv)
    where = file or client.file(environ)
    program = client.find_program()
    known = status.entry_in(client, where) if client.own else None
    # A client writes its entry anew, without what a person added.
    in_file = file is not None or _has_additions(known, entry)
    if client.own is None or program is None or in_file:
        edit = partial(_with_entry, client, entry)
        shown = client.format.put("", client.place(), entry).rstrip("\n")
        return FileEdit(what, where, edit, shown, bool(program) or file is not None)
    calls = [(program, *client.own.add(argv))]
    if known is not None and not client.own.replaces and client.own.remove is not None:
        calls.insert(0, (program, *client.own.remove))
    calls = [] if _has(known, entry) else calls
    # VS Code has the window that is open write it, some time later.
    settled = client.own.remove is not None
    done = (lambda: _has(status.entry_in(client, where), entry)) if settled else (lambda: None)
    return ProgramCalls(what, tuple(calls), where, done)


def uninstall_server(client: Client, environ: Environ, file: Path | None) -> Step:
    """The step that removes our MCP server."""
    what, where = f"MCP server of {client.title}", file or client.file(environ)
    program, own = client.find_program(), client.own
    if own is None or own.remove is None or program is None or file is not None:
        edit = partial(_without_entry, client)
        return FileEdit(what, where, edit, f"without {'.'.join(client.place())}")
    known = status.entry_in(client, where)
    calls = () if known is None else ((program, *own.remove),)
    return ProgramCalls(what, calls, where, lambda: status.entry_in(client, where) is None)


def install_hooks(client: Client, argv: list[str], environ: Environ) -> Step:
    """The step that has a client ask us about every command of its own shell tool.

    Raises: InvalidParameters if it has no hooks.
    """
    if client.hooks is None:
        raise InvalidParameters(f"{client.title} has no hooks that shelltie knows")
    entries, base = client.hooks.entries(argv), client.hooks.base

    def edit(text: str) -> str:
        for key, value in base.items():
            if not text.strip() or json_comments.get(text, [key]) is None:
                text = json_comments.put(text, [key], value)
        return _with_hooks(client, entries, text)

    shown = json.dumps({**base, "hooks": {name: [one] for name, one in entries.items()}}, indent=2)
    where = client.hooks.file(environ)
    return FileEdit(f"hook of {client.title}", where, edit, shown, _may_make(client))


def uninstall_hooks(client: Client, environ: Environ) -> Step:
    """The step that removes our hooks."""
    assert client.hooks is not None
    where = client.hooks.file(environ)
    edit = partial(_without_hooks, client)
    return FileEdit(f"hook of {client.title}", where, edit, f"without shelltie hook {client.name}")


def install_shell(client: Client, shell: str, environ: Environ) -> Step:
    """The step that runs each command of a client's own shell tool on a leash.

    Raises: InvalidParameters if it has no such setting; CannotStart.
    """
    if client.shell_file is None:
        raise InvalidParameters(
            f"{client.title} has no setting for a shell; where a program is started with"
            f" SHELL={shell} it may use that"
        )
    if not os.access(shell, os.X_OK):  # the client would fail at each command
        raise CannotStart(f"{shell}: not there, or not executable", 1)

    def edit(text: str) -> str:
        path = ["env", SHELL_PREFIX]
        known = json_comments.get(text, path) if text.strip() else None
        if known is not None and not str(known).endswith("shelltie-sh"):
            raise ConfigWrong(_ANOTHERS.format("env", SHELL_PREFIX, known))
        return text if known == shell else json_comments.put(text, path, shell)

    shown = json.dumps({"env": {SHELL_PREFIX: shell}}, indent=2)
    where = client.shell_file(environ)
    return FileEdit(f"shell of {client.title}", where, edit, shown, _may_make(client))


def uninstall_shell(client: Client, environ: Environ) -> Step:
    """The step that gives a client its own shell back."""

    def edit(text: str) -> str:
        path = ["env", SHELL_PREFIX]
        known = json_comments.get(text, path) if text.strip() else None
        ours = known is not None and str(known).endswith("shelltie-sh")
        return json_comments.drop(text, path) if ours else text

    assert client.shell_file is not None
    where = client.shell_file(environ)
    return FileEdit(f"shell of {client.title}", where, edit, f"without env.{SHELL_PREFIX}")


def _may_make(client: Client) -> bool:
    return client.find_program() is not None


def _has(known: object, entry: Entry) -> bool:
    """Whether an entry is ours as it should be; a client may have added to it."""
    return isinstance(known, Mapping) and entry.items() <= {**known}.items()


def _has_additions(known: object, entry: Entry) -> bool:
    """Whether an entry has more than what starts it; an empty `env` is what clients write."""
    return isinstance(known, Mapping) and any(
        value for key, value in known.items() if key not in (*entry, *_STARTED_BY)
    )


def _with_entry(client: Client, entry: Entry, text: str) -> str:
    """What says how it is started is ours; of the rest only what a person has not set."""
    known = client.format.get(text, client.place()) if text.strip() else None
    if isinstance(known, Mapping):
        wrong = {name for name in _STARTED_BY if name in known and known[name] != entry.get(name)}
        entry = {key: value for key, value in entry.items() if key in wrong or key not in known}
    return client.format.put(text, client.place(), entry) if entry else text


def _without_entry(client: Client, text: str) -> str:
    return client.format.drop(text, client.place()) if text.strip() else text


def _with_hooks(client: Client, entries: Mapping[str, Entry], text: str) -> str:
    found = status.our_hooks(client, text)
    known = [json_comments.get(text, ["hooks", *one]) for one in found]
    if known == list(entries.values()) and [event for event, *_ in found] == list(entries):
        return text
    text = _without_hooks(client, text)
    for event, entry in entries.items():
        text = json_comments.append(text, ["hooks", event], entry)
    return text


def _without_hooks(client: Client, text: str) -> str:
    for path in reversed(status.our_hooks(client, text)):
        text = json_comments.drop(text, ["hooks", *path])
    return text
