"""`shelltie completion`: scripts for bash, zsh and fish, generated from the parser."""

from argparse import Namespace
from collections.abc import Iterator

from shelltie.frontends.cli import parser as arguments
from shelltie.frontends.cli.parser import Parser

_BASH = """\
# shelltie completion for bash; use it with: eval "$(shelltie completion bash)"
_shelltie() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} where="" word
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        [[ $word == -- ]] && {{ COMPREPLY=($(compgen -c -f -- "$current")); return; }}
        case "$where $word" in
{places}
        esac
    done
    case "$where $previous" in
{values}
    esac
    case "$where" in
{words}
    esac
}}
complete -o default -F _shelltie shelltie
"""

_ZSH = """\
#compdef shelltie
# shelltie completion for zsh; use it with: eval "$(shelltie completion zsh)"
autoload -U +X bashcompinit && bashcompinit
{bash}"""


def main(args: Namespace) -> int:
    """Print the script."""
    makers = {"bash": _bash, "zsh": lambda: _ZSH.format(bash=_bash()), "fish": _fish}
    print(makers[args.shell](), end="")
    return 0


def _parsers() -> Iterator[tuple[tuple[str, ...], Parser]]:
    """Every command, with the words that lead to it."""
    waiting: list[tuple[tuple[str, ...], Parser]] = [((), arguments.build())]
    for path, parser in waiting:
        yield path, parser
        waiting.extend(((*path, name), sub) for name, sub in parser.commands.items())


def _bash() -> str:
    places, values, words = [], [], []
    for path, parser in _parsers():
        where = " ".join(path)
        if path:
            places.append(f'        "{" ".join(path[:-1])} {path[-1]}") where="{where}" ;;')
        for action in parser.actions:
            if action.option_strings and action.choices:
                pattern = "|".join(f'"{where} {name}"' for name in action.option_strings)
                choices = [str(choice) for choice in action.choices]
                values.append(f"    {pattern}) {_reply(choices)}; return ;;")
        words.append(f'    "{where}") {_reply(_first_words(parser))} ;;')
    return _BASH.format(places="\n".join(places), values="\n".join(values), words="\n".join(words))


def _reply(words: list[str]) -> str:
    return f'COMPREPLY=($(compgen -W "{" ".join(words)}" -- "$current"))'


def _first_words(parser: Parser) -> list[str]:
    """What may come next: commands, choices of an argument, options."""
    positional = [
        str(choice)
        for action in parser.actions
        if not action.option_strings
        for choice in action.choices or ()
    ]
    return positional + [name for action in parser.actions for name in action.option_strings]


def _fish() -> str:
    lines = ["# shelltie completion for fish; use it with: shelltie completion fish | source"]
    for path, parser in _parsers():
        seen = "; and ".join(f"__fish_seen_subcommand_from {name}" for name in path)
        names = " ".join(parser.commands)
        here = seen or "__fish_use_subcommand"
        if names and path:
            here += f"; and not __fish_seen_subcommand_from {names}"
        lines.extend(_fish_lines(parser, f"complete -c shelltie -n '{here}'"))
    return "\n".join(lines) + "\n"


def _fish_lines(parser: Parser, start: str) -> Iterator[str]:
    for name, sub in parser.commands.items():
        yield f"{start} -f -a {name} -d {_quoted(sub.description)}"
    for action in parser.actions:
        choices = " ".join(map(str, action.choices or ()))
        if action.option_strings:
            long = action.option_strings[-1].lstrip("-")
            takes = f" -x -a '{choices}'" if choices else "" if action.nargs == 0 else " -r"
            yield f"{start} -l {long}{takes} -d {_quoted(action.help)}"
        elif choices and not parser.commands:
            yield f"{start} -f -a '{choices}'"


def _quoted(text: str | None) -> str:
    return "'" + (text or "").replace("\\", "\\\\").replace("'", "\\'") + "'"
