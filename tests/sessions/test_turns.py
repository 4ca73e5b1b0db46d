"""Turns in a live session: queue, steering, cancelling, permissions, tools."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.sessions.hands import FakeTools
from tests.sessions.stage import (
    SECONDS,
    WINDOW,
    Stage,
    asking,
    events,
    kinds,
    of_kind,
    prompt,
    said,
    until,
)

from ullage.core.errors import BadInput
from ullage.core.events import AnswerReceived, PromptMode, ResultReceived, Stop, TurnEnded, TurnStarted
from ullage.core.inputs import Allowed, Denied, PermissionAnswered
from ullage.core.limits import LIMITS
from ullage.core.messages import Text, Usage
from ullage.core.turn_state import TurnState
from ullage.sessions.actor import SessionActor
from ullage.sessions.ports import Question
from ullage.testing.model import Line, Reply, ask, call, cut, fail, gated, raw_call, say, stall, think

# --- how a turn ends ---


@dataclass(frozen=True)
class Script:
    """What the model says to one prompt, and what comes of it."""

    replies: tuple[Line, ...]
    stop: Stop
    log: str
    """The log after the prompt was queued; see `_LETTERS`."""
    error: str | None = None
    text: str | None = None
    """The last answer's text."""


_LETTERS = {
    "TurnStarted": "<",
    "StepStarted": "s",
    "AnswerReceived": "a",
    "ResultReceived": "r",
    "TurnEnded": ">",
}
_READ = call("read", path="notes.txt")
SCRIPTS = {
    "an answer": Script((say("Hello."),), Stop.DONE, "<sa>", text="Hello."),
    "one tool": Script((ask(_READ), say("Read.")), Stop.DONE, "<sarsa>", text="Read."),
    "two tools at once": Script((ask(_READ, call("list")), say("Both.")), Stop.DONE, "<sarrsa>", text="Both."),
    "thinking": Script((think("Hm.", "Yes."),), Stop.DONE, "<sa>", text="Yes."),
    "an empty answer": Script((Reply(),), Stop.DONE, "<sa>", text=""),
    "the output limit": Script((say("And so", stop="max_tokens"),), Stop.LENGTH, "<sa>", text="And so"),
    "a tool that is not there": Script((ask(call("rm", path="/")), say("Sorry.")), Stop.DONE, "<sarsa>"),
    "a tool name no provider takes": Script((ask(call("r m!")), say("Sorry.")), Stop.DONE, "<sarsa>"),
    "arguments that are no JSON": Script((ask(raw_call("read", '{"path": ')), say("Oh.")), Stop.DONE, "<sarsa>"),
    "arguments of a wrong kind": Script((ask(call("read", path=3)), say("Oh.")), Stop.DONE, "<sarsa>"),
    "a lone surrogate": Script((say("bad \ud800 text"), say("Go on.")), Stop.DONE, "<sa>"),
    "one id for two calls": Script(
        (ask(raw_call("list", "{}", "x"), raw_call("list", "{}", "x")), say("Two.")), Stop.DONE, "<sarrsa>"
    ),
    "no usage": Script((say("Hello.", usage=Usage()),), Stop.DONE, "<sa>"),
    "a failure": Script((fail(500, "overloaded"),), Stop.FAILED, "<s>", "overloaded"),
    "a failure in the middle": Script(
        (fail(500, "overloaded", text="I was"),), Stop.FAILED, "<sa>", "overloaded", "I was"
    ),
    "a stream that is cut": Script((cut("I was"),), Stop.FAILED, "<sa>", "stream_cut", "I was"),
    "a failure after a tool": Script((ask(_READ), fail(529, "overloaded")), Stop.FAILED, "<sars>", "overloaded"),
}


def drawn(actor: SessionActor) -> str:
    return "".join(_LETTERS.get(kind, "") for kind in kinds(actor))


async def check_session(stage: Stage, root: Path, case: Script) -> SessionActor:
    """Play a script, then go on: whatever happened, the next prompt must work, in a valid request."""
    stage.play(case.replies)
    actor = await stage.session(root)
    outcome = await prompt(actor, "t1", "Do it.")
    assert (outcome.stop, outcome.error and outcome.error.code) == (case.stop, case.error)
    assert drawn(actor) == case.log
    assert actor.state.facts.open_turn is None and actor.turn.state is TurnState.IDLE and not actor.live()
    if case.text is not None:
        assert of_kind(actor, AnswerReceived)[-1].message.text == case.text
    stage.play([say("And on.")])
    assert (await prompt(actor, "t2")).stop is Stop.DONE
    return actor


@pytest.mark.parametrize("case", SCRIPTS.values(), ids=SCRIPTS)
async def test_how_a_turn_ends(stage: Stage, root: Path, case: Script) -> None:
    await check_session(stage, root, case)


async def test_a_turn_without_an_end_is_ended(stage: Stage, root: Path) -> None:
    tools = FakeTools("go", free=True)
    stage.play([ask(call("go"))] * (LIMITS.steps_per_turn + 1))
    actor = await stage.session_with(root, tools, window=1_000_000)
    outcome = await prompt(actor, "t1")
    assert (outcome.stop, outcome.error and outcome.error.code) == (Stop.FAILED, "too_many_steps")
    assert len(stage.model.requests) == LIMITS.steps_per_turn
    stage.play([say("Enough.")])
    assert (await prompt(actor, "t2")).error is None


async def test_a_provider_that_breaks_is_a_typed_error(stage: Stage, root: Path) -> None:
    def broken(request: object) -> Reply:
        raise ZeroDivisionError("a bug of the provider")

    case = Script((broken,), Stop.FAILED, "<s>", "internal")
    actor = await check_session(stage, root, case)
    assert "ZeroDivisionError" not in repr(events(actor))


# --- tools ---


async def test_a_tool_that_raises_gives_an_error_result(stage: Stage, root: Path) -> None:
    tools = FakeTools("go", free=True)
    stage.play([ask(raw_call("go", '"raise"')), say("Oh.")])
    actor = await stage.session_with(root, tools)
    assert (await prompt(actor, "t1")).stop is Stop.DONE
    [received] = of_kind(actor, ResultReceived)
    assert received.message.results[0].is_error
    assert "a bug in a tool" not in said(stage.model.requests[-1])


async def test_long_output_is_shortened_and_paged_through(stage: Stage, root: Path) -> None:
    """W-T1, W-C3: what the model saw is what a reload shows; the rest is read by reference, whole."""

    def page(request: object) -> Reply:
        reference = re.search(r"read_output with ([0-9a-f]{64})", said(request))
        assert reference is not None
        return ask(call("read_output", reference=reference[1], offset=3_000, characters=500))

    stage.play([ask(call("read", path="big.txt", lines=2_000)), page, say("Read.")])
    actor = await stage.session(root)
    assert (await prompt(actor, "t1")).stop is Stop.DONE
    first, second = (event.message.results[0] for event in of_kind(actor, ResultReceived))
    assert first.full is not None and first.full.size > 30_000
    assert actor._engine.counter.count(first.text) <= WINDOW * 15 // 100
    assert "characters 3000 to 3500" in second.text
    host = await stage.restart(root)
    again = await host.open_session(actor.session_id)
    assert [item.message for item in again.state.items] == [item.message for item in actor.state.items]  # type: ignore[union-attr]


async def test_a_reference_of_another_session_is_refused(stage: Stage, root: Path) -> None:
    stage.play([ask(call("read", path="big.txt", lines=2_000)), say("Read.")])
    actor = await stage.session(root)
    await prompt(actor, "t1")
    full = of_kind(actor, ResultReceived)[0].message.results[0].full
    stage.play([ask(call("read_output", reference=full.sha256)), say("Refused.")])
    other = await stage.hosts[-1].new_session(str(root))
    await prompt(other, "t1")
    result = of_kind(other, ResultReceived)[0].message.results[0]
    assert result.is_error and "no shortened result" in result.text


async def test_results_of_one_step_share_a_budget(stage: Stage, root: Path) -> None:
    stage.play([ask(*(call("read", path="big.txt", lines=2_000) for _ in range(5))), say("Read.")])
    actor = await stage.session(root)
    await prompt(actor, "t1")
    counted = [event.tokens for event in of_kind(actor, ResultReceived)]
    assert sum(counted) <= 12_000 * 30 // 100 + 5 * 300


# --- the queue ---


async def test_prompts_queue_and_run_in_order(stage: Stage, root: Path) -> None:
    gate = asyncio.Event()
    stage.play([gated(gate, say("One.")), say("Two."), say("Three.")])
    actor = await stage.session(root)
    asked = [asking(actor, f"t{number}", f"Prompt {number}") for number in range(3)]
    await until(lambda: len(actor.state.facts.queue) == 2)
    gate.set()
    assert [(await one).stop for one in asked] == [Stop.DONE] * 3
    assert [event.turn_id for event in of_kind(actor, TurnStarted)] == ["t0", "t1", "t2"]


async def test_a_steer_enters_at_the_next_step(stage: Stage, root: Path) -> None:
    gate = asyncio.Event()
    stage.play([gated(gate, ask(_READ)), say("Steered.")])
    actor = await stage.session(root)
    running = asking(actor, "t1", "Start.")
    await until(lambda: stage.model.open_streams == 1)
    steer = asking(actor, "s1", "Rather do that.", PromptMode.STEER)
    await until(lambda: len(actor.state.facts.queue) == 1)
    gate.set()
    assert (await steer).stop is None
    assert (await running).stop is Stop.DONE
    assert "Rather do that." in said(stage.model.requests[-1])
    assert kinds(actor).count("TurnStarted") == 1


async def test_a_waiting_prompt_can_be_changed_and_taken_out(stage: Stage, root: Path) -> None:
    gate = asyncio.Event()
    stage.play([gated(gate, say("One.")), say("Two.")])
    actor = await stage.session(root)
    first, second, third = (asking(actor, turn_id, "old words") for turn_id in ("t1", "t2", "t3"))
    await until(lambda: len(actor.state.facts.queue) == 2)
    await actor.edit_prompt("t2", [Text("new words")])
    await actor.remove_prompt("t3")
    with pytest.raises(BadInput):
        await actor.edit_prompt("t1", [Text("too late")])
    with pytest.raises(BadInput):
        await actor.remove_prompt("nobody")
    gate.set()
    assert [(await one).stop for one in (first, second, third)] == [Stop.DONE, Stop.DONE, Stop.CANCELLED]
    assert "new words" in said(stage.model.requests[-1])
    assert said(stage.model.requests[-1]).count("old words") == 1


async def test_a_repeated_turn_id_is_the_same_turn(stage: Stage, root: Path) -> None:
    """T120."""
    gate = asyncio.Event()
    stage.play([gated(gate, say("Once."))])
    actor = await stage.session(root)
    first, second = asking(actor, "t1"), asking(actor, "t1")
    await until(lambda: stage.model.open_streams == 1)
    gate.set()
    assert (await first).stop is Stop.DONE and (await second).stop is Stop.DONE
    assert (await prompt(actor, "t1")).stop is Stop.DONE
    assert kinds(actor).count("PromptQueued") == 1 and len(stage.model.requests) == 1


async def test_a_cancel_holds_the_queue_until_it_is_resumed(stage: Stage, root: Path) -> None:
    stage.play([stall("I"), say("Two."), say("Three.")])
    actor = await stage.session(root)
    first, second = asking(actor, "t1"), asking(actor, "t2")
    await until(lambda: len(actor.state.facts.queue) == 1 and bool(actor.live()))
    actor.cancel("t1")
    assert (await first).stop is Stop.CANCELLED
    third = asking(actor, "t3")
    await until(lambda: len(actor.state.facts.queue) == 2)
    assert actor.state.facts.held == "cancelled" and not second.done()
    await actor.resume_queue()
    assert [(await one).stop for one in (second, third)] == [Stop.DONE] * 2


# --- cancelling (J9) ---


async def before_start(stage: Stage, actor: SessionActor) -> None:
    pass


async def streaming(stage: Stage, actor: SessionActor) -> None:
    await until(lambda: bool(actor.live()))


async def in_a_tool(stage: Stage, actor: SessionActor) -> None:
    await until(lambda: actor.turn.state is TurnState.RUNNING_TOOLS and bool(actor.turn.running))


async def awaiting(stage: Stage, actor: SessionActor) -> None:
    await until(lambda: actor.turn.state is TurnState.AWAITING_APPROVAL)


Reach = Callable[[Stage, SessionActor], Awaitable[None]]
CANCELS: dict[str, tuple[list[Line], Reach, int]] = {
    "before the start": ([stall()], before_start, 0),
    "while the model speaks": ([stall("I began")], streaming, 0),
    "while a tool runs": ([ask(call("endless"))], in_a_tool, 1),
    "while one of two tools runs": ([ask(call("endless"), call("free"))], in_a_tool, 2),
    "while a person is asked": ([ask(call("change"), call("free"))], awaiting, 2),
}


async def never(question: Question) -> Allowed | Denied:
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("target", ["t1", None])
@pytest.mark.parametrize(("script", "reach", "calls"), CANCELS.values(), ids=CANCELS)
async def test_cancel_answers_once_and_closes_every_call(
    stage: Stage, root: Path, script: list[Line], reach: Reach, calls: int, target: str | None, times: int
) -> None:
    """J9, bugs rows 29 and 44: whenever it comes, and twice; the next request is valid and nothing is run again."""
    tools = FakeTools("endless", "free", "change", changing=["change"])
    tools.finish("free")
    stage.play(script)
    actor = await stage.session_with(root, tools, never)
    running = asking(actor, "t1", "Do it.")
    await asyncio.sleep(0)
    await reach(stage, actor)
    for _ in range(times):
        actor.cancel(target)
    async with asyncio.timeout(SECONDS):
        outcome = await running
    assert outcome.stop is Stop.CANCELLED
    assert [event.stop for event in of_kind(actor, TurnEnded)] == [Stop.CANCELLED]
    assert len(of_kind(actor, ResultReceived)) == calls
    assert "change" not in tools.started
    started = list(tools.started)
    stage.play([say("On we go.")])
    actor.cancel("t1")
    assert (await prompt(actor, "t2")).stop is Stop.DONE
    assert tools.started == started


@pytest.mark.parametrize("target", ["t1", "nobody", None])
async def test_a_late_cancel_does_nothing(stage: Stage, root: Path, target: str | None) -> None:
    stage.play([say("One."), say("Two.")])
    actor = await stage.session(root)
    await prompt(actor, "t1")
    before = kinds(actor)
    actor.cancel(target)
    await asyncio.sleep(0)
    assert kinds(actor) == before
    assert (await prompt(actor, "t2")).stop is Stop.DONE


async def test_a_cancel_of_another_turn_does_nothing(stage: Stage, root: Path) -> None:
    gate = asyncio.Event()
    stage.play([gated(gate, say("One."))])
    actor = await stage.session(root)
    running = asking(actor, "t1")
    await until(lambda: stage.model.open_streams == 1)
    actor.cancel("nobody")
    gate.set()
    assert (await running).stop is Stop.DONE


async def test_text_that_was_streamed_is_kept(stage: Stage, root: Path) -> None:
    stage.play([stall("I had begun to say"), say("Go.")])
    actor = await stage.session(root)
    running = asking(actor, "t1")
    await until(lambda: bool(actor.live()) and actor.live()[0].text == "I had begun to say")
    actor.cancel("t1")
    await running
    [answer] = of_kind(actor, AnswerReceived)
    assert (answer.message.text, answer.stop) == ("I had begun to say", "cancelled")
    await prompt(actor, "t2")
    assert "I had begun to say" in said(stage.model.requests[-1])


# --- permission (S4, S6) ---


async def test_a_tool_that_changes_something_runs_when_a_person_allows_it(stage: Stage, root: Path) -> None:
    tools = FakeTools("change", "free", changing=["change"], free=True)
    asked: list[tuple[str, str, bool]] = []

    async def allow(question: Question) -> Allowed | Denied:
        asked.append((question.session_id, question.call.name, question.spec.changes))
        assert not tools.started  # all calls of a step are decided before any runs
        return Allowed(question.call.call_id)

    stage.play([ask(call("change"), call("free")), say("Done.")])
    actor = await stage.session_with(root, tools, allow)
    assert (await prompt(actor, "t1")).stop is Stop.DONE
    assert asked == [(actor.session_id, "change", True)] and sorted(tools.started) == ["change", "free"]


async def denied(question: Question) -> Allowed | Denied:
    return Denied(question.call.call_id, "I said no.")


async def broken(question: Question) -> Allowed | Denied:
    raise RuntimeError("the client is gone")


@pytest.mark.parametrize(
    ("answer", "mode", "reason"),
    [
        (denied, None, "I said no."),
        (None, None, "nobody can be asked"),
        (broken, None, "could not be answered"),
        (never, "plan", "allows reading only"),
    ],
)
async def test_what_nobody_allows_does_not_run(
    stage: Stage, root: Path, answer: object, mode: str | None, reason: str
) -> None:
    tools = FakeTools("change", "free", changing=["change"], free=True)
    stage.play([ask(call("change"), call("free")), say("Not done.")])
    actor = await stage.session_with(root, tools, answer, permission_mode=mode)  # type: ignore[arg-type]
    assert (await prompt(actor, "t1")).stop is Stop.DONE
    assert tools.started == ["free"]
    assert reason in said(stage.model.requests[-1]) and "the client is gone" not in said(stage.model.requests[-1])


@pytest.mark.parametrize("when", ["twice", "after the cancel", "for an old call"])
async def test_a_stale_answer_has_no_effect(stage: Stage, root: Path, when: str) -> None:
    """S4: at most one effect."""
    tools = FakeTools("change", changing=["change"], free=True)
    stage.play([ask(call("change")), *([say("Done.")] if when == "twice" else [])])
    actor = await stage.session_with(root, tools, never)
    running = asking(actor, "t1")
    await awaiting(stage, actor)
    allowed = PermissionAnswered(Allowed("t0/9/c0" if when == "for an old call" else "t1/1/c0"))
    if when != "twice":
        actor._inbox.put_nowait(allowed) if when == "for an old call" else None
        actor.cancel("t1")
    actor._inbox.put_nowait(allowed)
    actor._inbox.put_nowait(allowed)
    await running
    assert tools.started == (["change"] if when == "twice" else [])
