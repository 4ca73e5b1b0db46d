"""A real host on a real folder, with a scripted model: what session tests play on.

Two things are held for every test, when its stage is left: each request that any scripted model got is one that a
provider would take, and nothing of a handoff (its wording, its record, its id) was told to anybody.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import pytest

from ullage.context.caps import Caps
from ullage.context.handoff import ID_PREFIX, TAG
from ullage.context.occupancy import fixed_part, request_tool
from ullage.core.context import Phase
from ullage.core.errors import UllageError
from ullage.core.events import Entry, HandoffRecorded, PromptMode, SessionConfigured, SessionCreated, StepStarted
from ullage.core.messages import Text
from ullage.core.money import Price
from ullage.core.ports import ModelCard, ProviderEvent, TokenCounter, Tools
from ullage.core.reduce import fold
from ullage.core.requests import Request
from ullage.core.state import Config, State
from ullage.core.views import Shown
from ullage.providers.tokens import ApproximateCounter
from ullage.sessions.actor import SessionActor
from ullage.sessions.effects import Effects
from ullage.sessions.engine import Engine
from ullage.sessions.host import Host
from ullage.sessions.journal import Journal
from ullage.sessions.notices import Compacted, CompactionStatus, Delta, Notice, Occupied, TurnOutcome, Updated
from ullage.sessions.ports import Ask, Ports
from ullage.sessions.prompt import system_prompt
from ullage.storage.blobs import BlobStore
from ullage.storage.files import DiskFiles, Files
from ullage.storage.ids import session_path, workspace_key
from ullage.storage.log import SessionLog
from ullage.testing.model import Line, Reply, ScriptedModel, ScriptedSummariser
from ullage.testing.validator import problems
from ullage.tools.table import tool_specs

START = 1_790_000_000_000
_FIXED = fixed_part(system_prompt("/work"), tuple(map(request_tool, tool_specs())), ApproximateCounter()).tokens
WINDOW = round((_FIXED + 7_400) / 0.525)
"""Leaves 7,400 tokens for messages below the handoff line, whatever the tools take, and some 8,600 below the compaction
line: 70 and 80 % of the three quarters of it that are no reserve."""
LONGEST_PAUSE = 1_000
"""Longest that samples wait for each other, in milliseconds."""
SECONDS = 60
"""Longest that a test waits for something before it gives up: never a measure."""


def words(tokens: int, label: str = "w") -> str:
    """Text of about that many tokens, as the cheap counter counts."""
    return " ".join(f"{label}{number:05d}" for number in range(tokens * 4 // (len(label) + 6)))


def big(tokens: int, label: str = "a") -> Reply:
    """An answer of about that many tokens, in one piece."""
    return Reply((words(tokens, label),))


@dataclass
class Told:
    """Everything that a host told, oldest first."""

    notices: list[tuple[str, Notice]] = field(default_factory=list)
    also: Callable[[Notice], object] = field(default=repr)
    """Looks at each notice in the moment it is told."""

    def hear(self, session_id: str, notice: Notice) -> None:
        self.notices.append((session_id, notice))
        self.also(notice)

    def of(self, session_id: str | None = None) -> list[Notice]:
        return [notice for told, notice in self.notices if session_id in (None, told)]

    def shown(self, session_id: str | None = None) -> list[Shown]:
        return [notice.shown for notice in self.of(session_id) if isinstance(notice, Updated)]

    def what(self, session_id: str | None = None) -> list[str]:
        """Names of the durable updates, without `Shown`."""
        return [type(shown.what).__name__.removeprefix("Shown") for shown in self.shown(session_id)]

    def deltas(self) -> list[Delta]:
        return [notice for notice in self.of() if isinstance(notice, Delta)]

    def occupied(self) -> list[Occupied]:
        return [notice for notice in self.of() if isinstance(notice, Occupied)]

    def compacted(self) -> list[Compacted]:
        return [notice for notice in self.of() if isinstance(notice, Compacted)]

    def statuses(self) -> list[str]:
        return [str(notice.status) for notice in self.compacted()]

    @property
    def committed(self) -> list[Compacted]:
        return [notice for notice in self.compacted() if notice.status is CompactionStatus.COMMITTED]


@dataclass
class Stage:
    """One home, any number of hosts on it, one after the other or at once."""

    home: Path
    files: Files = field(default_factory=DiskFiles)
    window: int | None = WINDOW
    cache_ms: int | None = None
    """How long the model's provider keeps its cache, in milliseconds."""
    model: ScriptedModel = field(init=False)
    summariser: ScriptedSummariser | None = None
    counter: TokenCounter = field(default_factory=ApproximateCounter)
    config: SessionConfigured | None = None
    prices: dict[str, Price] = field(default_factory=dict)
    caps: Caps = field(default_factory=Caps)
    price_tier: int | None = None
    at: int = START
    """What time it is, UTC milliseconds."""
    told: Told = field(default_factory=Told)
    whole: bool = True
    """No event may be impossible, except where a test damages a log."""
    hosts: list[Host] = field(default_factory=list)
    asked: list[tuple[Request, int | None]] = field(default_factory=list)
    """Every request, with the window there was then."""
    pauses: list[int] = field(default_factory=list)
    """Milliseconds of all that was waited for, limits in time included."""
    time_is_up: asyncio.Event = field(default_factory=asyncio.Event)
    _ids: Iterable[int] = field(default_factory=lambda: count(1))
    _models: list[ScriptedModel] = field(default_factory=list)
    _summarisers: list[ScriptedSummariser] = field(default_factory=list)
    _alone: list[SessionActor] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.play([])

    # --- before a test ---

    def play(self, script: Iterable[Line], summaries: Iterable[Line] | None = None) -> ScriptedModel:
        """What the model answers from now on; with `summaries` there is a summariser too."""
        self.model = ScriptedModel(script, ModelCard("scripted", self.window, "table"))
        self._models.append(self.model)
        self.summariser = None if summaries is None else ScriptedSummariser(summaries)
        if self.summariser:
            self._summarisers.append(self.summariser)
        return self.model

    def ports(self) -> Ports:
        return Ports(
            self.files,
            self.home,
            lambda: self.at,
            self._new_id,
            lambda: "fence",
            lambda: self.counter,
            self._provider,
            lambda config: self.summariser,
            pause=self._pause,
            caps=self.caps,
            price_tier=self.price_tier,
            price=lambda model: self.prices.get(model),
        )

    async def _pause(self, milliseconds: int) -> None:
        """Waiting between samples takes no time here; a limit in time is reached when a test says so."""
        self.pauses.append(milliseconds)
        if milliseconds > LONGEST_PAUSE:
            await self.time_is_up.wait()

    def _provider(self, config: Config) -> _Current:
        return _Current(self)

    def _new_id(self, at: int) -> str:
        return f"00000000-0000-7000-8000-{next(iter(self._ids)):012x}"

    def host(self) -> Host:
        """A server on this home. Call it again for a second one."""
        host = Host(self.ports(), self.config)
        host.listener = self.told.hear
        self.hosts.append(host)
        return host

    async def session(self, root: Path, **config: object) -> SessionActor:
        """A host with one trusted root, and a new session there."""
        host = self.host()
        host.add_root(str(root), trusted=True)
        change = SessionConfigured(**config) if config else None  # type: ignore[arg-type]
        return await host.new_session(str(root), config=change)

    async def session_with(self, root: Path, tools: Tools, ask: Ask | None = None, **config: object) -> SessionActor:
        """A session that has other tools than the host gives."""
        ports, path = self.ports(), str(root)
        session_id, key = self._new_id(START), workspace_key(path)
        created = SessionCreated(session_id, path, 1, 1)
        log = SessionLog.create(self.files, session_path(self.home, key, session_id), created, START)
        engine = Engine(ports, tools, path)
        effects = Effects(ports, engine, tools, None, BlobStore(self.files, self.home, key), ask)
        journal = Journal(log, fold([Entry(0, START, created)]), lambda: START)
        actor = SessionActor(journal, engine, effects, self.told.hear)
        self._alone.append(actor)
        actor.start([SessionConfigured(**config)] if config else [])  # type: ignore[arg-type]
        return actor

    async def restart(self, root: Path) -> Host:
        """Close the newest host and start another one with that root."""
        await self.hosts[-1].close()
        host = self.host()
        host.add_root(str(root), trusted=True)
        return host

    # --- after a test ---

    def entries(self, path: Path) -> list[Entry]:
        opened = SessionLog.open_readonly(self.files, path)
        try:
            return list(opened.log.entries())
        finally:
            opened.log.close()

    def logs(self) -> list[Path]:
        folder = self.home / "sessions"
        keys = [folder / key for key in self.files.list(folder)]
        return [key / name for key in keys for name in self.files.list(key) if name.endswith(".jsonl")]

    def records(self) -> list[str]:
        """Every handoff record in any log."""
        entries = (entry.event for path in self.logs() for entry in self.entries(path))
        return [event.record for event in entries if isinstance(event, HandoffRecorded)]

    def leaks(self, extra: Sequence[object] = ()) -> list[str]:
        """What of a handoff was told."""
        canaries = {TAG, ID_PREFIX, "do not answer this notice by itself"}
        canaries |= {json.loads(record)["messageId"].removeprefix(ID_PREFIX) for record in self.records()}
        told = "\n".join([*map(repr, self.told.of()), *map(repr, extra)])
        return sorted(canary for canary in canaries if canary in told)

    def invalid(self) -> list[str]:
        asked = [*self.asked, *((request, None) for summariser in self._summarisers for request in summariser.requests)]
        return [
            f"request {number} of {len(asked)}: {problem}"
            for number, (request, window) in enumerate(asked, 1)
            for problem in problems(request, window)
        ]

    async def leave(self) -> None:
        """Close everything, then hold what must hold in every test."""
        open_actors = [*self._alone, *(actor for host in self.hosts for actor in list(host._actors.values()))]
        histories = [shown for actor in open_actors for shown in actor.history()]
        lives = [actor.live() for actor in open_actors]
        exports = [await host.export(sid) for host in self.hosts for sid in list(host._actors)]
        async with asyncio.timeout(SECONDS):
            for closing in (*self.hosts, *self._alone):
                await closing.close()
        assert not self.invalid()
        assert not self.leaks([histories, lives, exports])
        assert not any(model.open_streams for model in self._models)
        assert not self.whole or not any(actor.state.facts.anomalies for actor in open_actors)


@dataclass
class _Current:
    """Whichever model the stage plays right now; `play` may change it in the middle of a session."""

    stage: Stage

    @property
    def card(self) -> ModelCard:
        return replace(self.stage.model.card, window=self.stage.window, cache_ms=self.stage.cache_ms)

    def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        self.stage.asked.append((request, self.stage.window))
        return self.stage.model.stream(request)


# --- acting ---


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that is on its way, in this loop or in a thread of ours."""
    async with asyncio.timeout(SECONDS):
        while True:
            if condition():
                return
            await asyncio.sleep(0)


def asking(
    actor: SessionActor, turn_id: str, text: str = "Go on.", mode: PromptMode = PromptMode.QUEUE
) -> asyncio.Task[TurnOutcome]:
    """A prompt whose answer is waited for later."""
    return asyncio.get_running_loop().create_task(actor.prompt(turn_id, [Text(text)], mode), name=turn_id)


async def prompt(actor: SessionActor, turn_id: str, text: str = "Go on.") -> TurnOutcome:
    async with asyncio.timeout(SECONDS):
        return await actor.prompt(turn_id, [Text(text)], PromptMode.QUEUE)


def events(actor: SessionActor) -> list[object]:
    return [entry.event for entry in actor.log.entries()]


def kinds(actor: SessionActor) -> list[str]:
    """Names of everything in the log."""
    return [type(event).__name__ for event in events(actor)]


def of_kind(actor: SessionActor, kind: type) -> list:  # type: ignore[type-arg]
    return [event for event in events(actor) if isinstance(event, kind)]


def decided(actor: SessionActor) -> list[int]:
    """The number each step was decided with, as logged."""
    return [event.occupancy.used for event in of_kind(actor, StepStarted)]


def said(request: object) -> str:
    """Everything in a request, as text to search."""
    return repr(request)


async def filled(stage: Stage, root: Path, script: list[Line], summaries: list[Line] | None = None) -> SessionActor:
    """A session just below the handoff line, whose next answers are the script."""
    stage.play([big(3_300, "a"), big(3_300, "b"), *script], summaries)
    actor = await stage.session(root, handoff=False)
    await prompt(actor, "t1", "Keep the FIRST constraint.")
    await prompt(actor, "t2")
    assert actor.occupancy.phase is Phase.BELOW_HANDOFF
    return actor


async def at_sample(stage: Stage) -> None:
    await until(lambda: bool(stage.summariser and stage.summariser.model.open_streams))


def next_request(actor: SessionActor) -> Request:
    """What would be sent now."""
    return actor._engine.request(actor.state, actor.occupancy)


def same(after: State, before: State) -> bool:
    return after.facts == before.facts and list(after.items) == list(before.items)


def code_of(error: pytest.ExceptionInfo[UllageError]) -> str:
    return error.value.report.code


def log_hash(actor: SessionActor) -> str:
    return hashlib.sha256(actor.log.path.read_bytes()).hexdigest()
