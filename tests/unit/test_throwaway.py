"""Who says yes in a throwaway sandbox: nobody, where more than that can be harmed."""

import pytest

from shelltie.adapters.throwaway import approve_throwaway
from shelltie.settings.config import Config


@pytest.mark.parametrize(
    ("isolation", "settings"),
    [
        ("none", {}),
        ("auto", {}),
        ("outside", {}),
        (None, {}),
        ("sandbox", {"sandbox_writable": ("/home/user/shared",)}),
        ("sandbox", {"sandbox_network": "on"}),
        ("sandbox", {"sandbox_network": "allow"}),
        ("container", {"container_mounts": ("/home/user/shared",)}),
        ("container", {"container_network": "on"}),
    ],
)
def test_nobody_says_yes_where_more_can_be_harmed(
    isolation: str | None, settings: dict[str, object]
) -> None:
    assert approve_throwaway(isolation, Config.of(**settings)) is None


@pytest.mark.parametrize("isolation", ["sandbox", "container"])
def test_somebody_says_yes_where_nothing_else_can(isolation: str) -> None:
    assert approve_throwaway(isolation, Config()) is not None
