"""What confined commands can write and reach. Every command here is a real one, on the kernel that there is."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.workspace.running import shell

from ullage.tools.toolbox import tool_specs
from ullage.workspace import sandbox as tried
from ullage.workspace.sandbox import Sandbox, SandboxMode, can_confine, can_leave_network, described

confining = pytest.mark.skipif(not can_confine(), reason="the kernel has no Landlock")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """With a temporary folder of its own: those of tests lie in the common one."""
    (tmp_path / "temp").mkdir()
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path / "temp")}


@pytest.fixture
def without_landlock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("ullage.workspace.confine.landlock", lambda: 0)
    tried.can_confine.cache_clear()
    yield
    tried.can_confine.cache_clear()


WRITES = [
    ("touch a && mv a b && mkdir c && mv b c/ && ln -s x y && rm -r c y", True),
    ("echo x > /dev/null", True),
    ("touch $TMPDIR/a && rm $TMPDIR/a", True),
    ("touch more/../../cache/a", True),
    ("cat ../outside", True),
    ("touch ../new", False),
    ("echo x > ../outside", False),
    ("echo x >> ../outside", False),
    ("rm ../outside", False),
    ("mv ../outside here", False),
    ("truncate -s 0 ../outside", False),
    ("ln ../outside here && echo x > here", False),
    ("ln -s ../outside link && echo x > link", False),
    ("mkdir ../folder", False),
    ("touch ~/new", False),
    ("bash -c 'setsid -w touch ../new'", False),
    ("kill -0 $PPID", None),
]
"""A command, and whether it succeeds; None: where the kernel is new enough it does not."""


@confining
@pytest.mark.parametrize(("command", "can"), WRITES)
async def test_what_a_confined_command_can_write(
    tmp_path: Path, environ: dict[str, str], command: str, can: bool | None
) -> None:
    (tmp_path / "outside").write_text("as it was")
    (tmp_path / "cache").mkdir()
    async with shell(tmp_path / "ws", environ=environ) as it:
        (it.folder / "more").mkdir()
        it.commands.sandbox = Sandbox(writable=(str(tmp_path / "cache"), str(tmp_path / "nowhere")))
        outcome = await it.bash(command)
    assert can is None or outcome.is_error is not can, outcome.text
    assert (tmp_path / "outside").read_text() == "as it was"
    assert not {"new", "folder"} & set(os.listdir(tmp_path))


async def test_a_command_that_is_not_confined_writes_where_the_person_can(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    """The same command as above: what stopped it was the sandbox."""
    async with shell(tmp_path / "ws", environ=environ) as it:
        it.commands.sandbox = Sandbox(SandboxMode.OFF)
        assert not (await it.bash("touch ../new ~/new")).is_error
    assert (tmp_path / "new").exists()


REACHES = "exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached"


@pytest.mark.skipif(not can_leave_network(), reason="this system cannot cut off the network")
@pytest.mark.parametrize("network", [True, False])
async def test_the_network_is_off_when_it_is(tmp_path: Path, environ: dict[str, str], network: bool) -> None:

    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, shell(tmp_path / "ws", environ=environ) as it:
        it.commands.sandbox = Sandbox(network=network)
        outcome = await it.bash(REACHES.format(port=port))
        who = await it.bash("id -u")
    assert ("reached" in outcome.text) is network
    assert who.text.startswith(f"{os.getuid()}\n")


async def test_what_cannot_be_confined_says_so(tmp_path: Path, environ: dict[str, str], without_landlock: None) -> None:
    """Off is stated, not silent; and a network that was to be off is no network that is on."""
    assert "not confined" in described(Sandbox())
    async with shell(tmp_path / "ws", environ=environ) as it:
        assert not (await it.bash("touch ../new")).is_error
        it.commands.sandbox = Sandbox(network=False)
        outcome = await it.bash("touch ran")
        assert outcome.is_error and "network" in outcome.text and not (it.folder / "ran").exists()


def test_the_model_is_told_what_holds() -> None:
    for sandbox in (Sandbox(), Sandbox(SandboxMode.OFF), Sandbox(network=False, writable=("/cache",))):
        [bash] = [spec for spec in tool_specs(sandbox=sandbox) if spec.name == "bash"]
        assert described(sandbox) in bash.description
    assert "bash" not in [spec.name for spec in tool_specs()]
