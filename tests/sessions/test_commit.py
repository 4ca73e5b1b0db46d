"""Commit before effect, on a disk that notes every call and can fail at any of them."""

from __future__ import annotations

import asyncio
import errno
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.sessions.hands import FakeTools
from tests.sessions.stage import SECONDS, Stage, asking, big, kinds, until

from ullage.core.commands import CompactionOutcome
from ullage.core.errors import StorageFailed, UllageError
from ullage.core.events import CheckpointCommitted, Entry, HandoffRecorded, PromptMode, Stop
from ullage.core.inputs import Allowed, Denied
from ullage.core.messages import Text
from ullage.core.requests import Request
from ullage.sessions.actor import SessionActor
from ullage.sessions.notices import CompactionAnswer, Notice, RewindAnswer, TurnOutcome, Updated
from ullage.sessions.ports import Question
from ullage.storage.lines import Line, read_lines
from ullage.storage.loading import Walk
from ullage.testing.disk import FakeDisk
from ullage.testing.model import Line as Scripted
from ullage.testing.model import Reply, ask, call, good_summary, say


def disk_of(stage: Stage) -> FakeDisk:
    assert isinstance(stage.files, FakeDisk)
    return stage.files


def durable(stage: Stage) -> list[Entry]:
    """Every event that a power cut leaves, of the only session."""
    after = disk_of(stage).lose_power(lambda n: 0)
    [path] = Stage(stage.home, after).logs()
    handle = after.open_read(path)
    lines = read_lines(after, handle, 0, after.size(handle))
    return [entry for _, entries in Walk().over(line for line in lines if isinstance(line, Line)) for entry in entries]


def durable_seq(stage: Stage) -> int:
    return durable(stage)[-1].seq


async def allow(question: Question) -> Allowed | Denied:
    return Allowed(question.call.call_id)


@dataclass
class Watch:
    """Looks at the disk in each moment that counts."""

    stage: Stage
    wrong: list[str] = field(default_factory=list)
    told: int = 0

    def hear(self, notice: Notice) -> None:
        if isinstance(notice, Updated):
            self.told += 1
            if notice.shown.seq > durable_seq(self.stage):
                self.wrong.append(f"told {notice.shown} before it was synced")

    def starts(self, name: str) -> None:
        if name == "change" and not any("change" in repr(entry.event) for entry in durable(self.stage)):
            self.wrong.append("a tool that changes something started before its intent was synced")

    def asked(self, reply: Reply, kind: type) -> Scripted:
        """The reply; what it rests on must be on the disk when the request comes."""

        def line(request: Request) -> Reply:
            if not any(isinstance(entry.event, kind) for entry in durable(self.stage)):
                self.wrong.append("a request went out before what it rests on was synced")
            assert isinstance(reply, Reply)
            return reply

        return line


async def test_nothing_is_told_or_done_before_its_line_is_synced(faulty: Stage, root: Path) -> None:
    """I1, I3, I11, T085, T029: updates, intents, checkpoints, handoffs; looked at as a power cut would leave them."""
    watch = Watch(faulty)
    faulty.told.also = watch.hear
    tools = FakeTools("change", "free", changing=["change"], free=True)
    tools.on_start = watch.starts
    faulty.play(
        [
            ask(call("change"), call("free")),
            big(3_900, "a"),
            big(3_900, "b"),
            watch.asked(big(2_000, "c"), HandoffRecorded),
            watch.asked(say("After."), CheckpointCommitted),
        ],
        [good_summary()],
    )
    actor = await faulty.session_with(root, tools, allow)
    for number in range(4):
        await actor.prompt(f"t{number}", [Text("Go. " + "more " * (900 if number == 2 else 1))], PromptMode.QUEUE)
    log = kinds(actor)
    assert {"HandoffRecorded", "CheckpointCommitted"} <= set(log)
    assert watch.told > 10 and tools.started.count("change") == 1
    assert not watch.wrong


# --- the n-th call fails ---


async def _life(stage: Stage, root: Path) -> tuple[SessionActor | None, list[object]]:
    """A small life of a session: tools, a queue, a rename, a compaction. Everything that was asked and its answer."""
    tools = FakeTools("change", "free", changing=["change"], free=True)
    stage.play([ask(call("change"), call("free")), big(3_300), say("Two."), say("Three.")], [good_summary()])
    try:
        actor = await stage.session_with(root, tools, allow, handoff=False)
    except UllageError as refused:
        return None, [refused]
    asked = [
        asking(actor, "t1"),
        asking(actor, "t2"),
        asyncio.get_running_loop().create_task(actor.rename("Other")),
    ]
    answers: list[object] = list(await asyncio.gather(*asked, return_exceptions=True))
    try:
        answers.append(await actor.compact("c1"))
        answers.append(await actor.prompt("t3", [Text("x")], PromptMode.QUEUE))
    except UllageError as refused:
        answers.append(refused)
    return actor, answers


def _error(answer: object) -> str | None:
    match answer:
        case TurnOutcome(error=error) | CompactionAnswer(error=error):
            return error.code if error else None
        case UllageError():
            return answer.report.code
        case BaseException():
            return f"not typed: {answer!r}"
    return None


FAILS = [(nth, error) for nth in range(1, 30) for error in (errno.ENOSPC, errno.EIO)] + [
    (n, None) for n in (12, 14, 16)
]


@pytest.mark.parametrize(("nth", "error"), FAILS)
async def test_whenever_the_disk_fails_everybody_is_told_once(
    faulty: Stage, root: Path, nth: int, error: int | None
) -> None:
    """T031, T033: nothing that is not on disk was told, the session only reads then, and nobody waits for ever."""
    disk = disk_of(faulty)
    disk.fail(nth, error)
    async with asyncio.timeout(SECONDS):
        actor, answers = await _life(faulty, root)
    if actor is None:
        assert isinstance(answers[0], StorageFailed) and disk.has_failed
        return
    codes = [_error(answer) for answer in answers]
    assert set(codes) <= {None, "storage_failed", "session_read_only", "session_closed", "nothing_to_gain"}, codes
    told = [shown.seq for shown in faulty.told.shown()]
    assert told == sorted(set(told))
    assert not told or told[-1] <= durable_seq(faulty)
    on_disk = {entry.seq: type(entry.event).__name__ for entry in durable(faulty)}
    assert all(seq in on_disk for seq in told)
    if "storage_failed" in codes:
        assert disk.has_failed and actor.read_only
        calls = len(disk.calls)
        with pytest.raises(UllageError):
            await actor.prompt("t9", [Text("x")], PromptMode.QUEUE)
        with pytest.raises(UllageError):
            await actor.rename("x")
        assert [one.what for one in disk.calls[calls:]] == []
    ended = [answer for answer in answers if isinstance(answer, TurnOutcome) and answer.error is None]
    assert all(outcome.stop is Stop.DONE for outcome in ended)


async def test_a_checkpoint_that_can_not_be_synced_keeps_the_old_context(faulty: Stage, root: Path) -> None:
    """T089, T097, I1: the turn stops, and what the model saw stays as it was."""
    faulty.play([big(3_300, "a"), big(3_000, "b")], [good_summary()])
    actor = await faulty.session_with(root, FakeTools(), handoff=False)
    for number in range(2):
        await actor.prompt(f"t{number}", [Text("Go.")], PromptMode.QUEUE)
    await until(lambda: actor.synced_seq == actor.state.facts.last_seq)
    before, disk = list(actor.state.items), disk_of(faulty)

    def at_the_gate(session_id: str, notice: Notice) -> None:
        heard(session_id, notice)
        if getattr(notice, "status", None) == "gated":
            disk.fail(2, errno.EIO)  # its write comes first, then its sync

    heard, actor._listener = actor._listener, at_the_gate
    async with asyncio.timeout(SECONDS):
        answer = await actor.compact("c1")
    assert (answer.outcome, answer.error and answer.error.code) == (CompactionOutcome.FAILED, "storage_failed")
    assert list(actor.state.items) == before and actor.state.facts.compactions == 0
    assert "committed" not in faulty.told.statuses() and actor.read_only
    assert not any(isinstance(entry.event, CheckpointCommitted) for entry in durable(faulty))


@pytest.mark.parametrize("redo", [False, True])
@pytest.mark.parametrize("what", ["read", "write", "fdatasync"])
async def test_a_rewind_that_can_not_be_synced_keeps_the_old_context(
    faulty: Stage, root: Path, what: str, redo: bool
) -> None:
    """Commit before effect: nobody is told of it, and the model's view stays as it was.

    What could not be read is asked once more; what could not be written or synced ends writing.
    """
    disk = disk_of(faulty)
    faulty.play([say("One."), say("Two."), say("Three.")])
    actor = await faulty.session_with(root, FakeTools())
    for number in range(2):
        await actor.prompt(f"t{number}", [Text("Go.")], PromptMode.QUEUE)
    if redo:
        await actor.rewind("r", "t1")

    async def go(there: bool) -> RewindAnswer:
        return await (actor.redo("u") if redo is there else actor.rewind("r", "t1"))

    calls = len(disk.calls)
    await go(there=True)
    nth = [call.what for call in disk.calls[calls:]].index(what) + 1
    await go(there=False)
    before, told = actor.state, faulty.told.shown()
    disk.fail(nth, errno.EIO)
    async with asyncio.timeout(SECONDS):
        with pytest.raises(UllageError) as refused:
            await go(there=True)
    assert disk.has_failed and refused.value.report.code == "storage_failed"
    assert actor.state is before and faulty.told.shown() == told
    assert durable(faulty)[-1].seq == before.facts.last_seq
    assert bool(actor.read_only) is (what != "read")
    if what == "read":
        await go(there=True)
        assert (await actor.prompt("t3", [Text("Go.")], PromptMode.QUEUE)).stop is Stop.DONE


@pytest.mark.parametrize("nth", range(1, 40))
async def test_a_host_whose_disk_fails_as_a_session_opens_can_be_closed(faulty: Stage, root: Path, nth: int) -> None:
    """Also where the first lines can't be written: no caller is left waiting, and closing ends."""
    faulty.play([say("One.")])
    first = await faulty.session(root)
    await first.prompt("t1", [Text("x")], PromptMode.QUEUE)
    await faulty.hosts[-1].close()
    host = faulty.host()
    host.add_root(str(root), trusted=True)
    disk_of(faulty).fail(nth, errno.ENOSPC)
    async with asyncio.timeout(SECONDS):
        for make in (
            lambda: host.open_session(first.session_id),
            lambda: host.new_session(str(root), title="A title"),
        ):
            try:
                actor = await make()
                await actor.rename("Another")
            except UllageError as refused:
                assert refused.report.code in ("storage_failed", "session_read_only", "unknown_session")
        await host.close()
    disk_of(faulty).fail(1_000_000, None)
