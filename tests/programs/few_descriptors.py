"""Has at most N descriptors, as after `prlimit --nofile=N:N`, and becomes `python -m shelltie`."""

import os
import resource
import sys

from tests.programs import fork_server

most = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
if fork_server.is_supported():
    fork_server.run(sys.argv[2:])
os.execv(sys.argv[2], sys.argv[2:])
