"""What a container is asked to be, and which variables its commands get."""

from pathlib import Path
from typing import Any, cast

import pytest

from shelltie.errors import CannotStart
from shelltie.providers.container.mounts import (
    Mount,
    checked_image,
    checked_mounts,
    covers,
    order,
    variables,
    visible,
)
from shelltie.providers.policies import ContainerPolicy
from shelltie.settings.all_settings import ContainerSettings

HOME = Path("/home/somebody")
OUTSIDE = {
    "PATH": "/opt/own:/usr/bin",
    "HOME": str(HOME),
    "JAVA_HOME": "/jdk",
    "LANG": "C",
    "K": "1",
}


def mounting(texts: tuple[str, ...]) -> ContainerPolicy:
    return ContainerPolicy(HOME, ContainerSettings(mounts=texts))


def _host(policy: ContainerPolicy, mounts: tuple[Mount, ...] = ()) -> dict[str, Any]:
    return cast(dict[str, Any], order(policy, mounts, "1:2", ("x",))["HostConfig"])


def test_it_has_no_rights_no_network_and_a_system_that_is_read_only() -> None:
    host = _host(ContainerPolicy(HOME, ContainerSettings(image="image", processes=0)))

    assert (host["CapDrop"], host["NetworkMode"], host["ReadonlyRootfs"]) == (["ALL"], "none", True)
    assert host["SecurityOpt"] == ["no-new-privileges", "x"]
    assert not {"Memory", "NanoCpus", "PidsLimit"} & host.keys()
    assert "size=1073741824" in host["Tmpfs"]["/tmp"]


def test_the_settings_are_in_the_order() -> None:
    policy = ContainerPolicy(HOME, ContainerSettings(network="on", memory=7, cpus=0.5, processes=9))
    mount = Mount(Path("/srv/data"), "/data", writable=False)
    host = _host(policy, (mount,))

    assert (host["NetworkMode"], host["Memory"], host["MemorySwap"]) == ("default", 7, 7)
    assert (host["NanoCpus"], host["PidsLimit"]) == (500_000_000, 9)
    assert host["Mounts"] == [
        {"Type": "bind", "Source": "/srv/data", "Target": "/data", "ReadOnly": True}
    ]
    assert "/data" in visible((mount,))


def test_the_variables_of_this_machine_stay_here() -> None:
    policy = ContainerPolicy(HOME, outside=OUTSIDE, passed=("K*",))
    image = {"PATH": "/usr/local/go/bin:/usr/bin", "GOPATH": "/go"}
    plain = variables({**OUTSIDE, "GIVEN": "x"}, policy, {})
    richer = variables({**OUTSIDE, "PATH": "/chosen:/usr/bin"}, policy, image)

    assert plain.pop("PATH").startswith("/usr/local/sbin:")
    assert plain == {"HOME": "/home/shelltie", "LANG": "C", "K": "1", "GIVEN": "x"}
    assert richer["PATH"] == "/chosen:/usr/bin:/usr/local/go/bin"
    assert richer["GOPATH"] == "/go"
    assert variables({"A": "1"}, policy, {}) == {"A": "1"}


@pytest.mark.parametrize("name", ["", "a b", "../etc", "-x", "a?b", "a#b", "ümlaut", "a/../b"])
def test_what_is_no_image_is_refused(name: str) -> None:
    with pytest.raises(CannotStart, match="no name of an image"):
        checked_image(name)


@pytest.mark.parametrize("name", ["debian:12", "ghcr.io/a/b@sha256:00", "localhost:5000/x_y"])
def test_what_may_be_one_is_not(name: str) -> None:
    assert checked_image(name) == name


def test_a_mount_has_a_source_a_target_and_perhaps_no_right_to_write(tmp_path: Path) -> None:
    texts = (f"{tmp_path}", f"{tmp_path}:/data", f"{tmp_path}:/more/../less:ro")
    found = checked_mounts(mounting(texts), (), ())

    assert [one.target for one in found] == [str(tmp_path), "/data", "/less"]
    assert [one.writable for one in found] == [True, True, False]


@pytest.mark.parametrize(
    "text",
    ["/usr", "/:/host", "/usr:relative:ro", "/usr:/:ro", "/usr:/proc/x:ro", "/usr:/x/../sys:ro",
     "/usr:/run/shelltie/keeper:ro", "", ":", ":ro", "/usr:/a:/b", "/no\0pe", "/usr://proc:ro",
     "~nobody-has-this-name/x", "/" + 5000 * "x"],
)  # fmt: skip
def test_a_mount_that_opens_a_way_is_refused(text: str) -> None:
    with pytest.raises(CannotStart, match=r"container\.mounts"):
        checked_mounts(mounting((text,)), (), ())


def test_our_own_places_are_refused_and_covered_where_they_would_be_seen(tmp_path: Path) -> None:
    ours = tmp_path / "state"
    ours.mkdir()
    (tmp_path / "engine.sock").touch()
    places = (ours, ours, tmp_path / "engine.sock", tmp_path / "missing")
    seen = Mount(tmp_path, "/data", writable=True)
    for text in (f"{ours}:/x:ro", f"{tmp_path}/engine.sock:/x:ro"):
        with pytest.raises(CannotStart, match="nothing for commands"):
            checked_mounts(mounting((text,)), places, ())

    found = {one.target: one.source for one in covers((seen,), places, Path("/empty"))}

    assert found == {"/data/state": Path("/empty"), "/data/engine.sock": Path("/dev/null")}


def test_our_own_place_that_is_not_there_is_made_so_that_it_can_be_covered(tmp_path: Path) -> None:
    later = tmp_path / "run" / "shelltie"
    checked_mounts(mounting((f"{tmp_path}:/data:ro",)), (later,), ())

    assert later.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("where", [".", "inside", "inside/deep"])
def test_what_the_workspace_has_is_written_nowhere_else(tmp_path: Path, where: str) -> None:
    workspace = tmp_path / "inside"
    (workspace / "deep").mkdir(parents=True)
    source = tmp_path / where

    with pytest.raises(CannotStart, match="add :ro"):
        checked_mounts(mounting((f"{source}:/x",)), (), (workspace,))
    assert checked_mounts(mounting((f"{source}:/x:ro",)), (), (workspace,))


@pytest.mark.parametrize("name", ["a,source=srv", 'a"b', "a\nb", "a\udcffb"])
def test_a_name_that_an_engine_misreads_is_refused(name: str) -> None:
    for mount in (Mount(Path("/srv", name), "/x", writable=False), Mount(Path("/"), name, True)):
        with pytest.raises(CannotStart, match="Rename it"):
            order(ContainerPolicy(HOME), (mount,), "0:0", ())
