"""Makes its stdin the controlling terminal, as a login does, and becomes the given command."""

import fcntl
import os
import sys
import termios

from tests.programs import fork_server

fcntl.ioctl(0, termios.TIOCSCTTY, 0)
if sys.argv[1:4] == [sys.executable, "-m", "shelltie"]:
    fork_server.run(sys.argv[1:])
os.execvp(sys.argv[1], sys.argv[1:])
