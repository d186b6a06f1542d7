"""ACP `diff` content blocks from a unified diff: the changes of a trial, as an editor shows them.

Pure. Each hunk is a block of its own, with the lines around it. What has none (modes, links, binary
files, names that are quoted) stands in the text beside it.
"""

from typing import Any

from shelltie.basics.lazy_regex import lazy

_HUNK = lazy(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@.*")
_FILE = "diff --git "
_NO_NEWLINE = "\\ No newline at end of file"
_BLOCKS_MAX = 200


def diff_content(text: str, directory: str) -> list[dict[str, Any]]:
    """The blocks for each hunk in a text; their paths are in that directory."""
    blocks, path = list[dict[str, Any]](), ""
    readable = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    lines = readable.split("\n")
    at = next((at for at, line in enumerate(lines) if line.startswith(_FILE)), len(lines))
    while at < len(lines) and len(blocks) < _BLOCKS_MAX:
        hunk = _HUNK.fullmatch(lines[at])
        if hunk is None:
            path = _path_after(lines, at, path)
            at += 1
            continue
        # By its counts: a line of a file may look like anything.
        sides = [1 if count is None else int(count) for count in hunk.groups()]
        old, new, at = _sides(lines, at + 1, sides)
        if path:
            made = {"type": "diff", "path": f"{directory.rstrip('/')}/{path}", "newText": new}
            blocks.append(made if not old and sides[0] == 0 else {**made, "oldText": old})
    return blocks


def _path_after(lines: list[str], at: int, path: str) -> str:
    """The file that the next hunk is about, from the two lines above it."""
    line = lines[at]
    if line.startswith(_FILE):
        return ""
    if line.startswith("--- a/"):
        return line.removeprefix("--- a/").removesuffix("\t")
    if line.startswith("+++ b/"):
        return line.removeprefix("+++ b/").removesuffix("\t")
    return path


def _sides(lines: list[str], at: int, left: list[int]) -> tuple[str, str, int]:
    old, new = list[str](), list[str]()
    while at < len(lines) and (any(left) or lines[at] == _NO_NEWLINE):
        kind, content = lines[at][:1], lines[at][1:]
        if lines[at] == _NO_NEWLINE:
            _without_newline(lines[at - 1][:1], old, new)
        else:
            old += [f"{content}\n"] if kind != "+" else []
            new += [f"{content}\n"] if kind != "-" else []
            left = [left[0] - (kind != "+"), left[1] - (kind != "-")]
        at += 1
    return "".join(old), "".join(new), at


def _without_newline(kind: str, old: list[str], new: list[str]) -> None:
    for side, other in ((old, "+"), (new, "-")):
        if kind != other and side:
            side[-1] = side[-1].removesuffix("\n")
