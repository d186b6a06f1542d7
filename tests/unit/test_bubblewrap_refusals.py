import pytest

from shelltie.providers.bubblewrap.bwrap import explain


@pytest.mark.parametrize(
    ("said", "settings", "remedy"),
    [
        (
            "bwrap: No permissions to create new namespace, likely because the kernel does not"
            " allow non-privileged user namespaces.",
            {"kernel/unprivileged_userns_clone": "0"},
            "sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        (
            "bwrap: setting up uid map: Permission denied",
            {"kernel/apparmor_restrict_unprivileged_userns": "1"},
            "give /usr/bin/bwrap a profile",
        ),
        (
            "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted",
            {"kernel/apparmor_restrict_unprivileged_userns": "1"},
            "give /usr/bin/bwrap a profile",
        ),
        (
            "bwrap: Creating new namespace failed: Operation not permitted",
            {},
            "--security-opt seccomp=unconfined",
        ),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", {}, "systempaths"),
        ("bwrap: No permissions to create", {"user/max_user_namespaces": "0"}, "=10000"),
        ("first\nbwrap: Can't find source path /x: Gone", {}, "Can't find source path /x: Gone"),
        ("", {}, "without a word"),
    ],
)
def test_each_refusal_has_its_remedy(said: str, settings: dict[str, str], remedy: str) -> None:
    assert remedy in explain(said, lambda name: settings.get(name, ""))
