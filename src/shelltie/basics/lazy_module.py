"""Lazy imports of standard modules: stand-ins that load theirs when a name in it is first read.

They are imported at the top of whoever may need them, as all are. Not importlib's LazyLoader: with
that a second `import` already loads the module (Python 3.11), and two threads may do so at once.
"""

import importlib
import sys
from _thread import allocate_lock  # `threading` would be the slowest import of all here
from functools import partial
from importlib.machinery import ModuleSpec
from types import ModuleType

_lock = allocate_lock()


def import_later(*names: str) -> None:
    """Have these modules loaded when they are used; those that are loaded stay as they are."""
    for name in names:
        if name not in sys.modules:
            sys.modules[name] = _StandIn(name)
            parent, _, child = name.rpartition(".")
            if parent:
                setattr(importlib.import_module(parent), child, sys.modules[name])


def import_submodule_later(name: str, *functions: str) -> None:
    """The same for one that its package takes by `from . import`: that is not loaded for it.

    Whoever imports one of these `functions` gets a function, which loads the module when called.
    """
    if name not in sys.modules:
        sys.modules[name] = _StandIn(name, functions)


def import_rare_later() -> None:
    """Half of what a subcommand or a hook would load: most use none of these."""
    import_later(
        *("anyio", "base64", "bz2", "concurrent.futures", "copy", "difflib", "glob", "hashlib"),
        *("inspect", "ipaddress", "logging", "lzma", "secrets", "shutil", "sqlite3", "ssl"),
        *("subprocess", "sysconfig", "tempfile", "textwrap", "tomllib", "zlib"),
    )
    # TLS: asyncio and anyio load it for those who may speak it, and it takes a tenth of a start.
    import_submodule_later("asyncio.sslproto")
    import_submodule_later("anyio._core._sockets", "convert_ipv6_sockaddr")


def import_now() -> None:
    """Load those that nobody has used yet."""
    for module in list(sys.modules.values()):
        if isinstance(module, _StandIn):
            module.__getattr__("__doc__")  # which every module has; a built-in one has no __file__


class _StandIn(ModuleType):
    """Has whatever the module has."""

    def __init__(self, name: str, functions: tuple[str, ...] = ()) -> None:
        super().__init__(name)
        self.__spec__ = ModuleSpec(name, None)  # which every `import` looks at
        self._functions = functions
        for function in functions:
            setattr(self, function, partial(self._call, function))

    def _call(self, function: str, *args: object, **named: object) -> object:
        return self.__getattr__(function)(*args, **named)  # type: ignore[operator]

    def __getattr__(self, name: str) -> object:
        if name == "__path__" and self._functions:
            raise AttributeError(name)  # `from … import function` asks whether it is a package
        with _lock:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
        value: object = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, value)
        return value
