"""`shelltie send`: writes input to a session."""

from argparse import Namespace

from shelltie.errors import InvalidParameters, NoServerAnswer
from shelltie.frontends.cli.console import print_error
from shelltie.frontends.cli.find_run import FoundRun, failed, write
from shelltie.frontends.cli.hold_staying import found_or_held
from shelltie.frontends.cli.main import WRONG_USAGE
from shelltie.frontends.control.run_row import INPUT_MAX
from shelltie.sessions import keys


def main(args: Namespace) -> int:
    """Type a line, or keys."""
    text = " ".join(args.words)
    if bool(args.words) == bool(args.key):
        print_error("what shall be typed? Give a TEXT, or --key KEY")
        return WRONG_USAGE
    try:
        data = _typed(text, args)
        with found_or_held(args.id, "shelltie send") as found:
            return _send(found, data)
    except InvalidParameters as error:
        print_error(str(error))
        return WRONG_USAGE


def _send(found: FoundRun, data: bytes) -> int:
    for start in range(0, len(data), INPUT_MAX):
        try:
            write(found, data[start : start + INPUT_MAX])
        except NoServerAnswer as error:
            if start:
                print_error(f"only the first {start} of {len(data)} bytes were typed")
            return failed(found, error)
    return 0


def _typed(text: str, args: Namespace) -> bytes:
    if args.key:
        return b"".join(map(keys.bytes_of, args.key))
    return text.encode("utf-8", "surrogateescape") if args.no_newline else keys.line(text)
