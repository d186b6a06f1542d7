"""Name and version of this package."""

from importlib import metadata


def version() -> str:
    """Of the installed package."""
    try:
        return metadata.version("shelltie")
    except metadata.PackageNotFoundError:  # run from a source tree
        return "0+source"
