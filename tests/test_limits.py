"""Every limit that may be set has an effect: who uses it got it, from each source that may say it (design 8)."""

from __future__ import annotations

import argparse
import ast
import asyncio
import inspect
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from tests.sessions.stage import asking, of_kind, prompt, until

from ullage import settings
from ullage.cli import serve
from ullage.core.errors import BadInput
from ullage.core.events import CheckpointCommitted, ResultReceived, Stop, TokensRecounted
from ullage.editors.lsp import LspServer
from ullage.providers.tokens import ApproximateCounter
from ullage.sessions import engine
from ullage.sessions.actor import SessionActor
from ullage.sessions.notices import Notice, Occupied
from ullage.testing.client import RpcError, make_client
from ullage.wire import rpc

SOURCE = Path(settings.__file__).parent
LIMITS = settings.limit_defaults()
EDITOR_MAY = [name for name in LIMITS if not name.startswith(settings.BEFORE_EDITOR)]


def other(name: str) -> int | float:
    """A value that is not the default."""
    return LIMITS[name] + 1


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = (tmp_path / "work").resolve()
    folder.mkdir()
    for number in range(8):
        (folder / f"f{number}.py").write_text(f"hit = {number}\n" * 300)
    return folder


@pytest.fixture(autouse=True)
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home and a user file of this test's own."""
    monkeypatch.setenv("ULLAGE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(settings, "user_file", lambda: tmp_path / "settings.toml")
    # Whatever another test of this process loaded: counts are the rough ones here.
    monkeypatch.setattr(serve, "counter_if_loaded", lambda: None)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    return parser.parse_args([])


@asynccontextmanager
async def session(
    workspace: Path,
    said: dict[str, Any] | None = None,
    script: list[dict[str, Any]] | None = None,
    window: int = 16_000,
) -> AsyncIterator[SessionActor]:
    """A session as the server's own composition makes it, after what an editor said."""
    environ = {}
    if script is not None:
        file = workspace.parent / "script.json"
        file.write_text(json.dumps({"window": window, "script": script}))
        environ[serve.SCRIPT] = str(file)
    host = serve.make_host(arguments(), environ)(said or {})
    host.add_root(str(workspace), trusted=True)
    try:
        yield await host.new_session(str(workspace))
    finally:
        await host.close()


# --- who uses it got it ---


def users(actor: SessionActor) -> dict[str, list[object]]:
    """The objects that use each package's limits: of a real server and a real session."""
    server = serve.make_server(arguments(), {})
    door: Any = actor._effects._door
    trusted: Any = actor._effects._tools
    explorer: Any = actor._engine.provider(actor.state)
    return {
        "core": [actor.turn.limits],
        "context": [actor._engine.limits.context, actor._engine.results_budget(actor.state).limits],
        "workspace": [door.limits, trusted._tools._root.limits],
        "tools": [trusted._tools._limits],
        "providers": [explorer._limits],
        "editors": [server._limits, server._following._limits, server._handlers._limits],
        "wire": [server.protocol.limits],
    }


async def check_reach(workspace: Path, names: list[str], said: dict[str, Any] | None = None) -> None:
    async with session(workspace, said) as actor:
        found = users(actor)
    for name in names:
        _, package, limit = name.split(".")
        assert {getattr(user, limit) for user in found[package]} == {other(name)}, name


async def test_the_environment_sets_every_limit(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in LIMITS:
        monkeypatch.setenv(settings.variable(name), str(other(name)))
    await check_reach(workspace, list(LIMITS))


async def test_the_user_file_sets_every_limit(workspace: Path) -> None:
    lines = [f"{name} = {other(name)}\n" for name in LIMITS]
    (workspace.parent / "settings.toml").write_text("".join(lines))
    await check_reach(workspace, list(LIMITS))


async def test_an_editor_sets_every_limit_but_its_own(workspace: Path) -> None:
    said: dict[str, dict[str, int | float]] = {}
    for name in EDITOR_MAY:
        _, package, limit = name.split(".")
        said.setdefault(package, {})[limit] = other(name)
    await check_reach(workspace, EDITOR_MAY, {"limits": said})


def test_what_an_editor_says_is_checked_like_everything_else() -> None:
    make = serve.make_host(arguments(), {})
    for said in ({"tools": {"entries": 0}}, {"tools": {"none": 1}}, {"core": {"files_remembered": 9}}):
        with pytest.raises(BadInput):
            make({"limits": said})


# --- and uses it ---


def attributes(path: Path) -> Iterator[ast.Attribute]:
    return (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute))


def test_every_limit_and_bound_is_read() -> None:
    modules = [path for path in SOURCE.rglob("*.py") if path.name not in ("limits.py", "settings.py")]
    read = {node.attr for path in modules for node in attributes(path)}
    assert [name for name in (*LIMITS, *settings.bounds()) if name.split(".")[-1] not in read] == []


def test_no_module_goes_by_the_defaults() -> None:
    """`LIMITS` is what a parameter is when nobody says otherwise, and nothing more."""
    found = [
        f"{path.name}:{node.lineno}"
        for path in SOURCE.rglob("*.py")
        for node in attributes(path)
        if isinstance(node.value, ast.Name) and node.value.id.strip("_") == "LIMITS"
    ]
    assert found == []


def test_the_engine_hands_on_its_limits() -> None:
    """Each function of `context` that takes limits is given them."""
    calls = [node for node in ast.walk(ast.parse(inspect.getsource(engine))) if isinstance(node, ast.Call)]
    asked = 0
    for call in calls:
        function = getattr(engine, call.func.id, None) if isinstance(call.func, ast.Name) else None
        if inspect.isfunction(function) and "limits" in (names := list(inspect.signature(function).parameters)):
            asked += 1
            named = {keyword.arg for keyword in call.keywords}
            assert "limits" in named or len(call.args) > names.index("limits"), call.func.id
    assert asked >= 6


# --- what a person sees of it ---


def calls(name: str, **given: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": given}]}


def limit(name: str, value: int) -> dict[str, Any]:
    _, package, short = name.split(".")
    return {"limits": {package: {short: value}}}


async def result_of(workspace: Path, said: dict[str, Any], asked: dict[str, Any]) -> str:
    """The text that one tool call gave the model."""
    async with session(workspace, said, [asked, {"say": "Done."}]) as actor:
        assert (await prompt(actor, "t1")).stop is Stop.DONE
        [received] = of_kind(actor, ResultReceived)
        return str(received.message.results[0].text)


async def test_steps_per_turn(workspace: Path) -> None:
    script = [{**calls("list"), "times": 9}]
    async with session(workspace, limit("limits.core.steps_per_turn", 3), script) as actor:
        outcome = await prompt(actor, "t1")
        assert (
            outcome.error is not None and outcome.error.code == "too_many_steps" and "3 steps" in outcome.error.message
        )
        assert len(of_kind(actor, ResultReceived)) == 3


async def test_grep_hits(workspace: Path) -> None:
    text = await result_of(workspace, limit("limits.tools.entries", 7), calls("grep", pattern="^hit", limit=500))
    assert text.count("hit =") == 7


@pytest.mark.parametrize("percent", [2, 15])
async def test_result_percent(workspace: Path, percent: int) -> None:
    """T107: a limit of its own is kept to."""
    said = limit("limits.context.result_percent", percent)
    text = await result_of(workspace, said, calls("read", path="f0.py", lines=300))
    budget = 12_000 * percent // 100
    assert budget // 2 < ApproximateCounter().count(text) <= budget


@pytest.mark.parametrize(("files", "size"), [(2, 400), (3, 200)])
async def test_restored_files(workspace: Path, files: int, size: int) -> None:
    reads = [calls("read", path=f"f{number}.py", lines=300) for number in range(6)]
    said = {"limits": {"workspace": {"restored_files": files, "restored_bytes": size}}}
    async with session(workspace, said, [*reads, {"say": "Read."}], window=64_000) as actor:
        await prompt(actor, "t1")
        await actor.compact("c1")
        [committed] = of_kind(actor, CheckpointCommitted)
    restored = committed.replacement.files
    assert len(restored) == files
    assert all(size // 2 < len(file.text) <= size for file in restored)


# --- the counter ---


class Changing:
    """A counter that gets better, as the server's does when its rank table is loaded."""

    loaded = False

    @property
    def encoding(self) -> str:
        return "ranks" if self.loaded else "rough"

    def count(self, text: str) -> int:
        return len(text) // 2 if self.loaded else len(text) // 4


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> Changing:
    made = Changing()
    monkeypatch.setattr(serve, "counter", lambda: made)
    return made


async def test_the_number_is_told_when_the_counter_got_better(workspace: Path, counter: Changing) -> None:
    """Without a prompt; what waits in the queue is counted again too, and nothing is counted twice."""
    stalled = [{"say": "First."}, {"stall": "..."}]
    async with session(workspace, script=stalled, window=64_000) as actor:
        told = listen(actor)
        await prompt(actor, "t1", "One two three.")
        running, waiting = asking(actor, "t2"), asking(actor, "t3", "Waits in the queue.")
        await until(lambda: len(actor.state.facts.queue) == 1 and bool(actor.live()))
        await actor.rename("Sooner")  # what was told so far is heard
        rough, before = actor.occupancy.used, actor.state.facts.queue[0].tokens
        counter.loaded = True
        told.clear()
        actor.counter_changed()
        await until(lambda: bool(told))
        assert [notice.occupancy for notice in told] == [actor.occupancy]
        assert actor.occupancy.used > rough
        [queued] = actor.state.facts.queue
        assert (queued.encoding, queued.tokens > before) == ("ranks", True)
        assert {item.encoding for item in actor.state.items} == {"ranks"}  # type: ignore[union-attr]
        actor.counter_changed()
        await actor.rename("Later")
        assert len(of_kind(actor, TokensRecounted)) == 1
        assert len(told) == 1
    assert {(await running).stop, (await waiting).stop} <= {Stop.CANCELLED, Stop.INTERRUPTED, None}


def listen(actor: SessionActor) -> list[Occupied]:
    """Every occupancy that is told from now on."""
    told: list[Occupied] = []

    def hear(session_id: str, notice: Notice) -> None:
        if isinstance(notice, Occupied):
            told.append(notice)

    actor._listener = hear
    return told


async def test_the_server_passes_it_on_from_another_thread(workspace: Path) -> None:
    """What loads the table calls back in its own thread; every session of the host hears of it in the loop."""
    kept: list[Callable[[], None]] = []
    heard: list[str] = []

    class Host:
        def counter_changed(self) -> None:
            heard.append("in the loop")

    server = LspServer(lambda said: Host(), lambda: "id", load_counter=kept.append)  # type: ignore[arg-type, return-value]
    server._host = Host()  # type: ignore[assignment]
    server.protocol.fm.features[types.INITIALIZED](types.InitializedParams())
    await asyncio.to_thread(kept[0])
    await until(lambda: heard == ["in the loop"])


async def test_the_body_limit_of_a_real_server(workspace: Path) -> None:
    env = {"ULLAGE_LIMITS_WIRE_BODY": "20000"}
    async with make_client([sys.executable, "-m", "ullage", "serve"], env=env) as client:
        await client.initialize(workspace)
        await client.request("ullage/session/new", {"title": "t" * 100})
        with pytest.raises(RpcError) as caught:
            await client.request("ullage/session/new", {"title": "t" * 20_000})
    assert caught.value.code == rpc.INVALID_REQUEST
