"""Hardening (PR_SET_DUMPABLE=0, bare environment): commands cannot read our secrets in /proc."""

import os
import sys

_PR_SET_DUMPABLE = 4
# What programs of ours need to start; anything else may be a secret.
_NEEDED = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH")


def hide_this_process() -> bool:
    """From now on only root can read our environment and memory, or attach; true if that holds.

    Not where the kernel has no such thing: only Linux has.
    """
    if sys.platform != "linux":
        return False
    import ctypes  # 3 ms, for servers only

    return int(ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)) == 0


def bare_environment() -> dict[str, str]:
    """For a program of ours: what it is started with can be read as long as it runs."""
    return {name: value for name in _NEEDED if (value := os.getenv(name)) is not None}
