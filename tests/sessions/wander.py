"""A person at a live session, by chance: every act that there is, in any order, and what must hold after each.

Nothing is mocked but the model, whose answers are drawn from the same seed. `Wander.act` does one thing and looks at
everything; what fails says which act of which seed it was.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import repeat
from pathlib import Path
from typing import cast

from tests.core.test_rewinding import check_view
from tests.sessions.stage import Stage, asking, decided, next_request, same, until

from ullage.context.leaving import Named
from ullage.context.pinning import _in_view
from ullage.core.errors import UllageError
from ullage.core.events import CheckpointCommitted, Entry, PromptMode, SessionConfigured
from ullage.core.messages import Image, Opaque, Part, Reasoning, Text, ToolCall, Usage
from ullage.core.omission import omission, whole_items
from ullage.core.pins import ORIGIN, pin_note
from ullage.core.reduce import fold, resume
from ullage.core.requests import Request
from ullage.core.rewinding import standing
from ullage.core.state import HandoffItem, Item, MessageItem, ReplacementItem, State
from ullage.core.views import (
    Shown,
    ShownAnswer,
    ShownOmission,
    ShownPin,
    ShownPinGone,
    ShownPrompt,
    ShownRedo,
    ShownResult,
    ShownRewind,
    ShownTurnStart,
)
from ullage.sessions.actor import SessionActor
from ullage.sessions.notices import TurnOutcome
from ullage.storage.blobs import BlobStore
from ullage.storage.ids import workspace_key
from ullage.storage.limits import BOUNDS
from ullage.storage.log import SessionLog
from ullage.testing.model import Line, Reply, ask, call, cut, fail, good_summary, overflow, raw_call, say
from ullage.testing.validator import problems

CANARY = "instruction-canary"
"""Stands in every instruction file: a client may hear of the file and never of its text."""
WINDOWS = (16_000, 16_000, 24_000, 60_000)
REFUSALS = (
    "unknown_turn already_rewound inside_turn nothing_to_redo not_in_view active_task pinned nothing_to_pin "
    "unknown_message not_waiting turn_running too_many_pins pins_too_long"
)
"""Codes of what a person may be refused."""


@dataclass(frozen=True, slots=True)
class Signed(Reply):
    """An answer whose reasoning the model's provider signed."""

    model: str = ""

    @property
    def parts(self) -> tuple[Part, ...]:
        opaque = Opaque("scripted", self.model, '{"signature": "' + "s" * 400 + '"}')
        return (Reasoning("I think.", opaque), Text("".join(self.deltas)), *self.calls)


@dataclass
class Wander:
    """One walk. `actor` is the session it is at; forks that were left are closed with the stage."""

    stage: Stage
    root: Path
    seed: int
    actor: SessionActor = field(init=False)
    done: Counter[str] = field(default_factory=Counter)
    """What was done so often, and what was met."""
    acts: list[str] = field(default_factory=list)
    _turns: int = 0
    _calls: int = 0
    _seen: int = 0
    _gate_now: asyncio.Event | None = None
    """What the next answer waits for."""
    _undone: tuple[int, State] | None = None
    """Seq of the newest rewind, and the state before it."""

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.stage.window = max(WINDOWS)
        self.stage.cache_ms = self.rng.choice([None, 300_000])
        summaries = repeat(cast(Line, lambda _: self._summary())) if self.one_in(2) else None
        self.stage.play(repeat(cast(Line, self._answer)), summaries)

    def one_in(self, n: int) -> bool:
        return self.rng.randrange(n) == 0

    async def begin(self) -> None:
        (self.root / "AGENTS.md").write_text(f"Be brief. {CANARY}\n")
        (self.root / "sub").mkdir()
        (self.root / "sub" / "AGENTS.md").write_text(f"Be kind. {CANARY}\n")
        (self.root / "sub" / "deep.txt").write_text("a deep line\n" * 200)
        self.actor = await self.stage.session(self.root, window=self.rng.choice(WINDOWS))

    # --- the model ---

    def _answer(self, request: Request) -> Reply:
        gate, self._gate_now = self._gate_now, None
        reply = self._reply(request)
        return replace(reply, gate=gate) if gate else reply

    def _reply(self, request: Request) -> Reply:
        kind = self.rng.random()
        if kind < 0.45 and self._calls < 7:
            self._calls += 1
            calls = tuple(self._call() for _ in range(self.rng.choice([1, 1, 2, 3])))
            return Signed(("Look.",), calls=calls, model=request.model) if self.one_in(3) else ask(*calls)
        if kind < 0.52:
            return self.rng.choice(
                [fail(400), cut("Half an ans"), overflow(None), overflow(9_000), fail(400, text="Ha")]
            )
        if kind < 0.6:
            return say(f"EXACT CONTINUATION RECORD [Exact next action] :: act {self._turns}")
        if kind < 0.65:
            return say("No usage.", usage=self.rng.choice([Usage(), Usage(0, 0)]))
        size = self.rng.choice([5, 100, 400, 1_200])
        text = f"answer {self._turns} " + "word " * size
        if self.one_in(2):
            return Signed((text,), model=request.model)
        return Reply((text,), ("Hm.",) if self.one_in(3) else ())

    def _call(self) -> ToolCall:
        return self.rng.choice(
            [
                call(
                    "read", path="big.txt", first_line=self.rng.randrange(1, 900), lines=self.rng.choice([3, 60, 300])
                ),
                call("read", path="notes.txt"),
                call("read", path="sub/deep.txt"),
                call("read", path="gone.txt"),
                call("read", path=".env"),
                call("grep", pattern="line 0001"),
                call("list"),
                call("recall", query="answer"),
                call("no_such_tool"),
                raw_call("read", "{not json", "same"),
            ]
        )

    def _summary(self) -> Reply:
        return self.rng.choice([good_summary(f"summary {self._turns}"), good_summary(), fail(400), say("No ledger.")])

    # --- acting ---

    async def act(self) -> None:
        """One thing that a person may do; then everything is looked at."""
        wait = Counter(
            prompt=12, long=2, amid=6, pin_text=2, pin_message=2, unpin=2, leave=3, back=2, rename=1, configure=2,
            compact=2, rewind=4, redo=4, preview=1, fork=1, reopen=2, wait=2, instruct=1, image=1, lose=1, close_open=1,
        )  # fmt: skip
        name = self.rng.choices(list(wait), list(wait.values()))[0]
        self.acts.append(name)
        self.stage.at += 1_000
        try:
            await getattr(self, f"_do_{name}")()
            self.done[name] += 1
        except UllageError as refused:
            assert refused.report.code in REFUSALS.split(), refused.report
            self.done[refused.report.code] += 1
        await self.check()

    async def _turn(self, parts: Iterable[Part]) -> TurnOutcome:
        self._turns += 1
        self._calls = 0
        name = f"t{self._turns}"
        outcome = await self.actor.prompt(name, list(parts), PromptMode.QUEUE)
        if self.actor.state.facts.held:
            await self.actor.resume_queue()
        await self._settle()
        self.done[f"end {outcome.stop}"] += 1
        return outcome

    async def _settle(self) -> None:
        await until(lambda: self.actor.state.facts.open_turn is None and not self._runnable())
        await until(lambda: self.actor.turn.state.value == "idle")
        await self.actor._in_turn(lambda: None)

    def _runnable(self) -> bool:
        return bool(self.actor.state.facts.queue) and self.actor.state.facts.held is None

    async def _do_prompt(self) -> None:
        await self._turn([Text(f"question {self._turns}")])

    async def _do_long(self) -> None:
        await self._turn([Text(f"question {self._turns} " + "more " * self.rng.choice([300, 1_500]))])

    async def _do_image(self) -> None:
        self._blobs = BlobStore(self.stage.files, self.stage.home, workspace_key(str(self.root)))
        picture = Image(self._blobs.put(b"image %d" % self._turns), "image/png", 100, 100)
        await self._turn([Text("Look at this."), picture])

    async def _do_lose(self) -> None:
        """The bytes of an image go."""
        stored = sorted(self.stage.home.glob("blobs/*/*/*"))
        if stored:
            self.rng.choice(stored).unlink()

    async def _do_amid(self) -> None:
        """A turn in which more is done while its request is under way."""
        gate = self._gate_now = asyncio.Event()
        self._turns, self._calls = self._turns + 1, 0
        running = asking(self.actor, f"t{self._turns}", f"question {self._turns}")
        await until(lambda: running.done() or self._gate_now is None)
        others: list[asyncio.Task[TurnOutcome]] = []
        for _ in range(self.rng.randrange(4)):
            act = self.rng.choice(["steer", "queue", "pin_text", "pin_message", "leave", "back", "rename", "configure"])
            self.acts.append(f"amid {act}")
            if act in ("steer", "queue"):
                self._turns += 1
                others.append(asking(self.actor, f"t{self._turns}", f"{act} {self._turns}", PromptMode(act)))
                continue
            try:
                await getattr(self, f"_do_{act}")()
            except UllageError as refused:
                assert refused.report.code in REFUSALS.split(), refused.report
        if self.one_in(4):
            self.actor.cancel()
        elif self.one_in(6):
            await self._do_fork()
            gate.set()
            return
        gate.set()
        self._gate_now = None
        await running
        if self.actor.state.facts.held:
            await self.actor.resume_queue()
        await asyncio.gather(*others)
        await self._settle()

    async def _do_pin_text(self) -> None:
        await self.actor.pin_text(f"pinned rule {self.rng.randrange(6)}" + " and so on" * self.rng.choice([0, 0, 150]))

    async def _do_pin_message(self) -> None:
        """Any message that was ever said."""
        shown = [each.what for each in self.actor.history()]
        ids = [what.message.message_id for what in shown if isinstance(what, ShownAnswer | ShownResult | ShownPrompt)]
        if ids:
            await self.actor.pin_message(self.rng.choice(ids))

    async def _do_unpin(self) -> None:
        if pins := self.actor.state.facts.pins:
            await self.actor.unpin(self.rng.choice(pins).pin_id)

    def _said(self) -> list[MessageItem]:
        items = whole_items(self.actor.state.items)
        return [item for item in items if isinstance(item, MessageItem) and not _note(item)]

    async def _do_leave(self) -> None:
        if items := self._said():
            seqs = {self.rng.choice(items).seq for _ in range(self.rng.choice([1, 3]))}
            await self.actor.leave_out(Named(seqs=tuple(seqs)))

    async def _do_back(self) -> None:
        if found := omission(self.actor.state.items):
            left = self.rng.choice(found.left_out)
            await self.actor.leave_out(Named(seqs=(left.item.seq,)), back=True)

    async def _do_rename(self) -> None:
        await self.actor.rename(self.rng.choice(["", "a title", f"title {self._turns}"]))

    async def _do_configure(self) -> None:
        change = SessionConfigured(
            model=self.rng.choice([None, "scripted", "other"]),
            window=self.rng.choice([None, *WINDOWS]),
            handoff=self.rng.choice([None, True, False]),
            auto_compaction=self.rng.choice([None, None, True]),
        )
        self._answers_as(change.model or self.actor.state.facts.config.model)
        await self.actor.configure(change)

    def _answers_as(self, model: str | None) -> None:
        """The model that the session is configured with is the one that answers."""
        self.stage.model.card = replace(self.stage.model.card, name=model or "scripted")

    async def _do_compact(self) -> None:
        answer = await self.actor.compact(f"c{self._turns}")
        self.done[f"compact {answer.outcome}"] += 1

    def _places(self) -> list[str]:
        shown = [each.what for each in self.actor.history()]
        turns = [what.turn_id for what in shown if isinstance(what, ShownTurnStart)]
        return [*turns, *(f"{turn}/u" for turn in turns), *turns[-3:], "nobody"]

    async def _do_preview(self) -> None:
        before = self.actor.state
        await self.actor.rewind_preview(self.rng.choice(self._places()))
        assert same(self.actor.state, before)

    async def _do_rewind(self) -> None:
        before, name = self.actor.state, self.rng.choice(self._places())
        preview = await self.actor.rewind_preview(name)
        answer = await self.actor.rewind("r", name)
        assert replace(answer, seq=None) == preview, "a dry run tells what happens"
        assert answer.after == self.actor.occupancy.used
        assert answer.seq is not None
        self._undone = (answer.seq, before)

    async def _do_redo(self) -> None:
        redoable = self.actor.state.facts.redoable
        await self.actor.redo("u")
        if self._undone and self._undone[0] == redoable:
            assert bare(self.actor.state) == bare(self._undone[1]), "a redo brings back what was there"
            self.done["redone"] += 1

    async def _do_fork(self) -> None:
        seq = self.rng.choice([None, self.rng.randrange(self.actor.synced_seq + 1)])
        parent, before = self.actor, self.actor.log.path.read_bytes()
        child = await self.stage.hosts[-1].fork(parent.session_id, seq)
        assert parent.log.path.read_bytes().startswith(before)
        await self.stage.hosts[-1].close_session(parent.session_id)
        self.actor, self._gate_now, self._undone = child, None, None
        self._answers_as(child.state.facts.config.model)
        await self._settle()

    async def _do_reopen(self) -> None:
        await self._again(await self.stage.restart(self.root))

    async def _do_close_open(self) -> None:
        await self.stage.hosts[-1].close_session(self.actor.session_id)
        await self._again(self.stage.hosts[-1])

    async def _again(self, host: object) -> None:
        before = self.actor
        request = self._request(before)
        self.actor = await self.stage.hosts[-1].open_session(before.session_id, str(self.root))
        await self._settle()
        if self.actor.state.facts.last_seq == before.state.facts.last_seq:
            assert same(self.actor.state, before.state)
            assert self._request(self.actor) == request, "what was kept in memory changes nothing"

    async def _do_wait(self) -> None:
        self.stage.at += self.rng.choice([60_000, 400_000, 4_000_000])

    async def _do_instruct(self) -> None:
        file = self.rng.choice([self.root / "AGENTS.md", self.root / "sub" / "AGENTS.md"])
        if file.exists() and self.one_in(3):
            file.unlink()
        else:
            file.write_text(f"Rule {self._turns}. {CANARY}\n")

    # --- what must hold ---

    def _request(self, actor: SessionActor) -> Request | None:
        return next_request(actor) if any(isinstance(item, MessageItem) for item in actor.state.items) else None

    async def check(self) -> None:
        """Everything that holds at any moment at which nothing runs."""
        await self.actor._in_turn(lambda: None)
        actor, state = self.actor, self.actor.state
        assert not state.facts.anomalies
        asked, self._seen = self.stage.asked[self._seen :], len(self.stage.asked)
        assert not [problem for request, window in asked for problem in problems(request, window)]
        request = self._request(actor)
        assert request is None or not problems(request)
        entries = list(actor.log.entries())
        whole = fold(entries)
        assert same(state, whole), "the state in memory is the fold of the log"
        self._check_stored(entries, whole)
        self._check_numbers()
        check_view(entries)
        self._check_clients(entries, state)
        self._check_pins(state)
        self._check_sums(state)

    def _check_stored(self, entries: list[Entry], whole: State) -> None:
        opened = SessionLog.open_readonly(self.stage.files, self.actor.log.path)
        try:
            assert same(opened.state, whole), "a reload gives the same"
        finally:
            opened.log.close()
        listed = self.stage.hosts[-1].list_sessions(str(self.root))
        [one] = [each for each in listed if each.session_id == self.actor.session_id]
        assert one.title == whole.facts.title or one.size > BOUNDS.tail_bytes, "the list has the title of the session"
        for index, entry in enumerate(entries):
            if isinstance(entry.event, CheckpointCommitted):
                again = fold(entries[index + 1 :], resume(entry))
                # Identity is the header's: checkpoints of a fork name the parent.
                facts = replace(
                    again.facts,
                    session_id=whole.facts.session_id,
                    created_at=whole.facts.created_at,
                    root=whole.facts.root,
                    device=whole.facts.device,
                    inode=whole.facts.inode,
                )
                assert same(State(facts, again.items), whole), "the law of checkpoints"

    def _check_numbers(self) -> None:
        actor = self.actor
        logged = decided(actor)
        sent = [request.tokens for request, _ in self.stage.asked]
        assert not logged or logged[-1] in sent or not sent
        occupied = [n for n in self.stage.told.of(actor.session_id) if hasattr(n, "occupancy")]
        assert occupied and occupied[-1].occupancy == actor.occupancy, "the newest number told is the one that is"

    def _check_clients(self, entries: list[Entry], state: State) -> None:
        """Whoever replays the updates knows what the model sees."""
        told, history = self.stage.told.shown(self.actor.session_id), list(self.actor.history())
        assert not told or [shown for shown in history if shown.seq >= told[0].seq] == told
        stands = list(standing(history))
        assert _left_out_for_a_client(stands, state.facts.epoch) == _left_out(state)
        texts = {
            each.what.message.message_id: each.what.message.text
            for each in stands
            if isinstance(each.what, ShownAnswer | ShownResult | ShownPrompt)
        }
        for item in whole_items(state.items):
            if isinstance(item, MessageItem) and item.message.origin is None and item.seq > state.facts.epoch:
                assert texts[item.message.message_id] == item.message.text
        assert _pins_for_a_client(history) == {pin.pin_id for pin in state.facts.pins}

    def _check_pins(self, state: State) -> None:
        """Each pin is in view; shortened at most by a compaction; and told once."""
        heads = [item.replacement for item in state.items if isinstance(item, ReplacementItem)]
        in_head = Counter(pin.pin_id for head in heads for pin in head.pins)
        notes = Counter(item.message.message_id for item in state.items if isinstance(item, MessageItem))
        for pin in state.facts.pins:
            assert _in_view(state, pin) or pin.pin_id in in_head, f"{pin.pin_id} is not in view"
            note = pin_note(pin).message_id
            assert notes[note] + in_head[pin.pin_id] <= 1, f"{pin.pin_id} is told twice"

    def _check_sums(self, state: State) -> None:
        upto = 0
        for item in state.items:
            upto += item.tokens
            assert item.upto == upto
        if model := state.facts.config.model:
            said = [item.message for item in state.items if isinstance(item, MessageItem)]
            assert not [each for each in said if each.portable(model)[1]], "what would not be sent does not count"
        assert sum(isinstance(item, HandoffItem) for item in state.items) == state.facts.handoffs

    def end(self) -> None:
        """What is looked at once, because it costs."""
        assert not self.stage.leaks()
        assert CANARY not in repr(self.stage.told.of()), "an instruction file's text was told to a client"


def bare(state: State) -> list[object]:
    """What a redo must bring back: what was said, as if nothing were left out, without what a model signed."""
    return [_bare(item) for item in whole_items(state.items) if not isinstance(item, HandoffItem) and not _note(item)]


def _bare(item: Item) -> object:
    if not isinstance(item, MessageItem):
        return replace(item, upto=0)
    message = item.message
    return item.seq, message.message_id, message.text, message.calls, message.results


def _note(item: Item) -> bool:
    return isinstance(item, MessageItem) and item.message.origin == ORIGIN


def _left_out(state: State) -> set[int]:
    found = omission(state.items)
    return {left.item.seq for left in found.left_out} if found else set()


def _left_out_for_a_client(stands: list[Shown], epoch: int) -> set[int]:
    left: set[int] = set()
    for shown in stands:
        if isinstance(shown.what, ShownOmission) and shown.seq > epoch:
            left = left | set(shown.what.seqs) if shown.what.reason else left - set(shown.what.seqs)
    return left


def _pins_for_a_client(history: list[Shown]) -> set[str]:
    """Pins by their updates: those of messages go and come with them."""
    pins: dict[str, ShownPin] = {}
    taken: dict[int, dict[str, ShownPin]] = {}
    for shown in history:
        match shown.what:
            case ShownPin(pin):
                pins[pin.pin_id] = shown.what
            case ShownPinGone(pin_id):
                pins.pop(pin_id, None)
            case ShownRewind(_, before):
                gone = {name: each for name, each in pins.items() if not each.pin.typed and each.pin.seq >= before}
                taken[shown.seq] = gone
                pins = {name: each for name, each in pins.items() if name not in gone}
            case ShownRedo(rewind):
                pins |= taken.get(rewind, {})
            case _:
                pass
    return set(pins)


async def wander(stage: Stage, root: Path, seed: int, steps: int) -> Wander:
    """A whole walk."""
    walk = Wander(stage, root, seed)
    await walk.begin()
    try:
        for _ in range(steps):
            await walk.act()
        walk.end()
    except BaseException as error:
        error.add_note(f"seed {seed}: {', '.join(walk.acts)}")
        raise
    return walk
