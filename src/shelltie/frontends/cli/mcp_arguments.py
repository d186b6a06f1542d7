"""What may stand on the command line behind `mcp`."""

import argparse

from shelltie.errors import InvalidParameters
from shelltie.frontends.mcp import address

_HTTP = """\
Without --http one client is served on stdin and stdout. With it, whoever shows
a token is served at http://HOST:PORT/mcp, each with sessions of their own. The
file of tokens is made with one in it if there is none; it has one a line."""

_ONLY_HTTP = ("token_file", "tls_cert", "tls_key", "allow_host", "allow_plaintext")


def add_mcp(mcp: argparse.ArgumentParser) -> None:
    """Add the options for serving over HTTP."""
    mcp.epilog = _HTTP
    mcp.add_argument(
        "--http", type=_address, metavar="HOST:PORT", help="serve over HTTP here, not on stdio"
    )
    http = mcp.add_argument_group("with --http")
    http.add_argument("--token-file", metavar="FILE", help="who may come in (see shelltie paths)")
    http.add_argument("--tls-cert", metavar="FILE", help="serve HTTPS with this certificate")
    http.add_argument("--tls-key", metavar="FILE", help="and this key")
    http.add_argument(
        "--allow-host", action="append", metavar="NAME", help="a name clients use; repeatable"
    )
    http.add_argument(
        "--allow-plaintext",
        action="store_true",
        help="listen beyond this machine without TLS; something else encrypts",
    )


def check(args: argparse.Namespace) -> None:
    """Whether nothing is said about HTTP where there is none.

    Raises: InvalidParameters.
    """
    given = [name for name in _ONLY_HTTP if getattr(args, name)]
    if args.http is None and given:
        option = f"--{given[0].replace('_', '-')}"
        raise InvalidParameters(f"{option} is for HTTP: give --http HOST:PORT, too")


def _address(text: str) -> address.Address:
    try:
        return address.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
