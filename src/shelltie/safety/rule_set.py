"""Rule set in force: ours, loaded lazily through the index, and the user's own."""

import json
import re
import tomllib
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from pathlib import Path

from shelltie.basics.frozen import frozen, mutable
from shelltie.basics.lazy_regex import lazy
from shelltie.errors import ConfigWrong
from shelltie.safety.rule import Rule
from shelltie.safety.rule_parser import Document, Sketch, compile_rules, sketch_rules
from shelltie.settings.files import read_small_file

PROGRAMS = Path(__file__).parent / "programs"
INDEX = PROGRAMS / "index.json"
COMPILED = PROGRAMS / "compiled"  # made when the package is built, and not in the repository

_VERSION = lazy(r"(?<=[A-Za-z+])[-.]?\d+(?:\.\d+)*$")
_EXAMPLES = lazy(r"^(?:not_)?match\s*=\s*\[.*?\]\s*$", re.MULTILINE | re.DOTALL)
_GLOB = lazy(r"[*?\[]")

_Commands = dict[tuple[str, ...], Sketch]
_TREES_MAX = 2048  # so that made-up names cannot fill the memory


@frozen
class RuleFile:
    """A file of the user's. One that may `tighten_only` cannot make anything milder."""

    path: Path
    tighten_only: bool = False


@mutable
class Node:
    """A program or a subcommand, and what may follow it; its rule is read when it is needed."""

    command: tuple[str, ...] = ()
    sketch: Sketch | None = None
    made: Rule | None = None
    exact: dict[str, "Node"] = field(default_factory=dict)
    globs: list[tuple[str, "Node"]] = field(default_factory=list)

    @property
    def rule(self) -> Rule | None:
        """What is known of it."""
        if self.made is None and self.sketch is not None:
            self.made = self.sketch.rule(self.command)
        return self.made

    @property
    def has_subcommands(self) -> bool:
        """Its first operand may choose another rule."""
        return bool(self.exact or self.globs)

    def child(self, word: str) -> "Node | None":
        """The subcommand of that name; an exact one comes before a pattern."""
        if (node := self.exact.get(word)) is not None:
            return node
        return next((node for glob, node in self.globs if fnmatchcase(word, glob)), None)

    def grow(self, word: str) -> "Node":
        """The child of that name, made if it is not there."""
        if not _GLOB.search(word):
            return self.exact.setdefault(word, Node())
        for glob, node in self.globs:
            if glob == word:
                return node
        self.globs.append((word, made := Node()))
        self.globs.sort(key=lambda pair: -len(_GLOB.sub("", pair[0])))
        return made


Index = Mapping[str, Sequence[str]]


def read_index() -> Index:
    """Which files speak of which program."""
    index: dict[str, list[str]] = json.loads(INDEX.read_text(encoding="utf-8"))
    return index


def make_index() -> dict[str, list[str]]:
    """The index anew, from the files themselves.

    Raises: ConfigWrong if a file is wrong, or if two rules speak of one command.
    """
    index: dict[str, list[str]] = {}
    seen: dict[tuple[str, ...], str] = {}
    for path in sorted(PROGRAMS.glob("*.toml")):
        for rule in read_family(path):
            here = f"{path.name}:{rule.line}"
            if seen.setdefault(rule.command, here) != here:
                known = seen[rule.command]
                raise ConfigWrong(f"{here}: {' '.join(rule.command)} already has a rule, {known}")
            families = index.setdefault(rule.command[0], [])
            if path.stem not in families:
                families.append(path.stem)
    return dict(sorted(index.items()))


def read_family(path: Path, *, trusted: bool = True) -> list[Rule]:
    """Every rule of a file.

    Raises: ConfigWrong.
    """
    return compile_rules(_text(path), str(path), family=path.stem, trusted=trusted)


def _text(path: Path) -> str:
    try:
        return read_small_file(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigWrong(f"{path}: cannot be read: {error}") from error


def without_examples(text: str) -> str:
    """One of our files without its examples: reading them takes most of the time."""
    return _EXAMPLES.sub("", text)


def write_compiled() -> None:
    """Our files as JSON, which is read in a fortieth of the time that TOML takes."""
    COMPILED.mkdir(exist_ok=True)
    for path in PROGRAMS.glob("*.toml"):
        text = without_examples(_text(path))
        made = {"text": text, "document": tomllib.loads(text)}
        (COMPILED / f"{path.stem}.json").write_text(json.dumps(made), encoding="utf-8")


def _compiled(path: Path, text: str) -> Document | None:
    """What the build has made of one of our files, unless its text is another one by now."""
    try:
        made = json.loads((COMPILED / f"{path.stem}.json").read_bytes())
    except (OSError, ValueError):  # a checkout, or a build that was interrupted
        return None
    document: Document | None = made["document"] if made["text"] == text else None
    return document


def _by_program(path: Path, *, trusted: bool) -> dict[str, _Commands]:
    """The rules of a file by the programs they speak of."""
    text = without_examples(_text(path)) if trusted else _text(path)
    document = _compiled(path, text) if trusted else None
    programs: dict[str, _Commands] = {}
    for sketch in sketch_rules(
        text, str(path), family=path.stem, trusted=trusted, document=document
    ):
        for command in sketch.commands:
            programs.setdefault(command[0], {})[command] = sketch
    return programs


class RuleSet:
    """What is known of programs; made once, then only read.

    Raises: ConfigWrong if a file of the user's cannot be used; nothing is loosened by leaving
    one out, so there is no such choice.
    """

    def __init__(self, files: Sequence[RuleFile] = (), index: Index | None = None) -> None:
        self._index = read_index() if index is None else index
        self._patterns = _patterns(self._index)
        self._families: dict[str, dict[str, _Commands]] = {}
        self._trees: dict[str, tuple[Node | None, ...]] = {}
        self._trusted = _commands(files, tighten_only=False)
        self._tight = _commands(files, tighten_only=True)

    def for_program(self, name: str) -> tuple[Node | None, ...]:
        """The trees a command of this program is rated with; the strictest wins."""
        if (trees := self._trees.get(name)) is None:
            if len(self._trees) >= _TREES_MAX:
                self._trees.clear()
            trees = self._trees[name] = self._grown(name)
        return trees

    def names(self, name: str) -> bool:
        """Whether a rule speaks of a program by this very name: cheaper than to look for it."""
        return name in self._index or name in self._trusted or name in self._tight

    def _grown(self, name: str) -> tuple[Node | None, ...]:
        shipped = self._shipped(name)
        usual = _tree({**shipped, **_of(self._trusted, name)})
        if not (tight := _of(self._tight, name)):
            return (usual,)
        return (usual, _tree({**shipped, **tight}))

    def _shipped(self, name: str) -> _Commands:
        known = _known(name, self._index, self._patterns)
        if known is None:
            return {}
        commands: _Commands = {}
        for family in self._index[known]:
            if family not in self._families:
                path = PROGRAMS / f"{family}.toml"
                self._families[family] = _by_program(path, trusted=True)
            commands |= self._families[family].get(known, {})
        return commands


def _patterns(names: Iterable[str]) -> list[str]:
    return [name for name in names if _GLOB.search(name)]


def _known(name: str, names: Container[str], patterns: Sequence[str]) -> str | None:
    """The name under which a program is listed: itself, a pattern, or without its version."""
    if name in names:
        return name
    for pattern in patterns:
        if fnmatchcase(name, pattern):
            return pattern
    bare = _VERSION.sub("", name)
    return bare if bare in names else None


def _of(programs: Mapping[str, _Commands], name: str) -> _Commands:
    known = _known(name, programs, _patterns(programs))
    return programs[known] if known is not None else {}


def _commands(files: Sequence[RuleFile], *, tighten_only: bool) -> dict[str, _Commands]:
    programs: dict[str, _Commands] = {}
    for file in files:
        if file.tighten_only is tighten_only:
            read_family(file.path, trusted=False)  # whatever is wrong with it is told now
            for name, commands in _by_program(file.path, trusted=False).items():
                programs.setdefault(name, {}).update(commands)
    return programs


def _tree(commands: _Commands) -> Node | None:
    if not commands:
        return None
    root = Node()
    for command, sketch in commands.items():
        node = root
        for word in command[1:]:
            node = node.grow(word)
        node.command, node.sketch = command, sketch
    return root
