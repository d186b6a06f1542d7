"""A text that writes shelltie's own settings and records is dangerous, however it names them."""

import pytest

from shelltie.model import Command
from shelltie.safety.judge import Judge
from shelltie.safety.rule_set import RuleSet
from shelltie.verdict import Rating

JUDGE = Judge(RuleSet())


def rating(text: str) -> Rating:
    return JUDGE.first(Command(text)).rating


@pytest.mark.parametrize(
    "text",
    [
        "echo > ~/.config/shelltie/config.toml",
        "cd; echo > .config/shelltie/config.toml",
        "cd && cp x .config/shelltie/rules/",
        "cd; echo >> .bashrc",
        "cd ~/.config/shelltie; echo > config.toml",
        "echo x >> $XDG_CONFIG_HOME/shelltie/trusted.toml",
        "cp x $XDG_CONFIG_HOME/shelltie/",
        'echo > "${XDG_CONFIG_HOME:-$HOME/.config}/shelltie/config.toml"',
        "echo > $XDG_STATE_HOME/shelltie/session-numbers",
        "echo > ~/.config/shellti[e]/approved.toml",
        "tee ~/.config/*/config.toml",
        "tee ~/.loca?/state/shelltie/journal.db",
        "echo > /srv/settings/shelltie/config.toml",
        "cp x /srv/settings/shelltie/rules/mine.toml",
        "tar xf a -C ~/.config/shelltie",
        "tar -xf a --directory=$HOME/.config/shelltie/rules",
        "tar xf a -C $XDG_CONFIG_HOME/shelltie",
    ],
)
def test_writing_there_is_dangerous(text: str) -> None:
    assert rating(text) is Rating.DANGEROUS


@pytest.mark.parametrize(
    "text",
    [
        "cat ~/.config/shelltie/config.toml",
        "tar cf a -C ~/.config/shelltie .",
        "tar tf a -C ~/.config/shelltie",
        "tar xf a -C out/shelltie",
        "echo > src/shelltie/settings/config.py",
        "echo > ~/.config/other/config.yml",
        "echo > out/*.toml",
        "cd; echo > notes.txt",
        "echo > $XDG_CONFIG_HOME/other/x",
    ],
)
def test_reading_there_and_writing_elsewhere_is_not(text: str) -> None:
    assert rating(text) is not Rating.DANGEROUS
