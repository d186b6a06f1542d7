"""`shelltie web`: the page that shows everything that runs, and what waits for a person."""

import sys
import threading
import webbrowser
from argparse import Namespace

from shelltie.environment.inherited import inherited
from shelltie.frontends.cli.console import Style, print_error
from shelltie.frontends.web.server import PageLinks, serve_page

_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


def main(args: Namespace) -> int:
    """Serve it until it is interrupted.

    Raises: CannotStart.
    """
    told = _Announcement(Style(sys.stdout, args.color), opens=not args.no_open)
    serve_page(args.port, told.print, allow_input=args.allow_input)
    return 0


class _Announcement:
    """The links. The one that steers is for a person: it goes to a terminal, and into no file."""

    def __init__(self, ink: Style, *, opens: bool) -> None:
        self._ink = ink
        self._opens = opens

    def print(self, links: PageLinks) -> None:
        """Print them, and open the page."""
        at_terminal = sys.stdout.isatty()
        print(f"{self._ink('dim', 'look   ')} {links.view}")
        if links.steer is None:
            print_error(f"nobody can steer through this page: {links.why_not}")
        elif at_terminal:
            print(f"{self._ink('bold', 'steer  ')} {links.steer}")
        else:
            print_error("the link that steers is printed at a terminal only")
        sys.stdout.flush()
        if self._opens and at_terminal:
            self._open(links.once)
        print_error("leave with ctrl-c")

    def _open(self, link: str) -> None:
        environ = inherited()
        shows = sys.platform == "darwin" or any(environ.get(name) for name in _DISPLAYS)
        if not shows:
            print_error("there is no display here: open a link in a browser on this machine")
            return
        # Some browsers stay in the foreground, and webbrowser.open waits for them.
        threading.Thread(target=_open, args=(link,), daemon=True).start()


def _open(link: str) -> None:
    if not webbrowser.open(link):
        print_error("no browser was found: open a link in one on this machine")
