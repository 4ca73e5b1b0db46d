"""What a provider signed: kept unread, sent back as it came to the same provider and model, or not at all.

Every way that such a part can go, from the log to the body of a request (design 6.19).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.context.histories import COUNTER, Log
from tests.context.test_compaction import check_compacts, compact, planned
from tests.providers.claude import MODEL, asks, claude, goes_on

from ullage.context.assembly import cut_source
from ullage.context.occupancy import budget, count_message
from ullage.context.request import render
from ullage.core.context import Omission, OmissionReason, Reason
from ullage.core.events import ItemsOmitted, ItemsRestored, Parent, SessionConfigured, SessionForked
from ullage.core.messages import Message, Opaque, Part, Reasoning, Role, Text, ToolCall, ToolResult
from ullage.core.omission import message_units
from ullage.core.requests import Request, RequestMessage
from ullage.core.state import MessageItem
from ullage.providers.anthropic_body import Bodies, joined
from ullage.providers.anthropic_shape import to_anthropic
from ullage.providers.limits import Limits
from ullage.providers.openai_shape import to_openai
from ullage.testing.messages_rules import problems
from ullage.testing.messages_script import Raw, Thought, says, use

RAW = '{"type": "thinking", "thinking": "h\\u006d  \\ud83d\\ude00", "signature": "c2ln"}'
HIDDEN = '{"type": "redacted_thinking", "data": "c2VjcmV0"}'


def signed(model: str = "m", provider: str = "anthropic") -> tuple[Part, ...]:
    return (Reasoning("hm", Opaque(provider, model, RAW)), Opaque(provider, model, HIDDEN))


def answered(*parts: Part) -> Log:
    """A long turn whose newest answer has these parts, and whose tool loop is open."""
    log = Log(budget(64_000, "test")).prompt("look").read("old.py", 60_000)
    log.answer(*parts, Text("Looking."), ToolCall("c1", "read", "{}"))
    return log.result("c1", "text")


def sent(log: Log, model: str = "m") -> list[str]:
    """The signed blocks in the body that would be sent to that model, as JSON."""
    messages, _ = render(log.state.items, model)
    body = to_anthropic(Request(model, "", (), tuple(messages), 4_000, 100))
    assert problems(body | {"stream": True}) == []
    blocks = [block for message in body["messages"] for block in message["content"]]
    return [json.dumps(block) for block in blocks if block["type"] in ("thinking", "redacted_thinking")]


AS_THEY_CAME = [json.dumps(json.loads(raw)) for raw in (RAW, HIDDEN)]


def switched(log: Log) -> Log:
    return log.add(SessionConfigured(model="other"))


def forked(log: Log) -> Log:
    return log.add(SessionForked(Parent("parent", 3)))


def compacted(log: Log, summary: str | None) -> Log:
    """A compaction whose tail holds the signed answer."""
    log.read("a.py", 2_000)
    made = planned(log, Reason.MANUAL)
    replacement = compact(log, made, summary=summary)
    return log.checkpoint(replacement, made.source_seq)


CASES: dict[str, tuple[Callable[[Log], Log], str, list[str]]] = {
    "the same model": (lambda log: log, "m", AS_THEY_CAME),
    "another model": (lambda log: log, "other", []),
    "switched to another": (switched, "other", []),
    "switched, and back": (lambda log: switched(log).add(SessionConfigured(model="m")), "m", []),
    "named what it was": (lambda log: log.add(SessionConfigured(model="m")), "m", AS_THEY_CAME),
    "another setting changed": (lambda log: log.add(SessionConfigured(window=50_000)), "m", AS_THEY_CAME),
    "a fork": (forked, "m", AS_THEY_CAME),
    "a fork to another model": (lambda log: switched(forked(log)), "other", []),
    "the tail beside a model's ledger": (lambda log: compacted(log, "a ledger"), "m", AS_THEY_CAME),
    "the tail of the fallback": (lambda log: compacted(log, None), "m", []),
}


@pytest.mark.parametrize(("way", "model", "expected"), CASES.values(), ids=CASES)
def test_where_a_signed_part_goes(way: Callable[[Log], Log], model: str, expected: list[str]) -> None:
    """To the byte as JSON, in its place, or not at all; the request is one that the API takes."""
    assert sent(way(answered(*signed())), model) == expected


@pytest.mark.parametrize("provider", ["openai", "anthropic-native", ""])
def test_another_provider_of_a_model_of_the_same_name(provider: str) -> None:
    assert sent(answered(*signed(provider=provider))) == []


def test_the_other_shape_has_no_place_for_it() -> None:
    messages, _ = render(answered(*signed(provider="openai")).state.items, "m")
    body = json.dumps(to_openai(Request("m", "", (), tuple(messages), 100, 100)))
    assert "Looking." in body and "c2ln" not in body and "c2VjcmV0" not in body


def test_what_is_dropped_counts_no_more() -> None:
    """One number: what would not be sent after a switch is no part of it, and what can be read stays."""
    log = answered(*signed())
    before = log.state.tokens
    switched(log)
    items = [item for item in log.state.items if isinstance(item, MessageItem)]
    assert log.state.tokens == sum(count_message(item.message, COUNTER) for item in items) < before
    assert [item.upto for item in items] == [sum(i.tokens for i in items[: n + 1]) for n in range(len(items))]
    assert Reasoning("hm") in items[3].message.parts and not items[3].message.has_opaque


def test_an_answer_that_comes_after_the_switch_loses_it_too() -> None:
    """The session got another model while it was under way."""
    log = Log(budget(64_000, "test")).prompt("look").step()
    switched(log).answered(*signed(), Text("Looking."))
    items = [item for item in log.state.items if isinstance(item, MessageItem)]
    assert log.state.tokens == sum(count_message(item.message, COUNTER) for item in items)
    assert items[-1].message.parts == (Reasoning("hm"), Text("Looking."))


def test_what_is_left_out_loses_it_too() -> None:
    """Taken back after a switch, it counts what is sent of it."""
    log = answered(*signed())
    units = tuple(tuple(item.seq for item in unit) for unit in message_units(log.state.items) if len(unit) > 1)
    log.add(ItemsOmitted(Omission(units, OmissionReason.MICRO, 100, 20)))
    switched(log).add(ItemsRestored(units))
    items = [item for item in log.state.items if isinstance(item, MessageItem)]
    assert len(items) == 5 and not any(item.message.has_opaque for item in items)
    assert log.state.tokens == sum(count_message(item.message, COUNTER) for item in items)


def test_a_message_without_foreign_parts_stays_the_same_object() -> None:
    message = Message("t1/1/a", Role.ASSISTANT, (*signed(), Text("yes")), "t1")
    assert message.portable("m") == (message, 0) and message.portable("m")[0] is message
    bare, less = message.portable("other")
    assert bare.parts == (Reasoning("hm"), Text("yes"))
    assert less == count_message(message, COUNTER) - count_message(bare, COUNTER)
    assert replace(message, parts=signed()[1:]).portable("other")[0].parts == ()


def test_a_shortened_unit_has_none() -> None:
    """A signature belongs to an answer that is whole: a unit that had to be shortened goes without, calls closed."""
    log = Log(budget(64_000, "test")).prompt("look")
    log.answer(*signed(), ToolCall("c1", "read", "{}")).result("c1", "x" * 120_000).answer(Text("done")).end()
    made = planned(log, Reason.MANUAL)
    replacement = compact(log, made, summary="a ledger")
    assert any(kept.message.calls for kept in replacement.tail)
    assert not any(kept.message.has_opaque for kept in replacement.tail)
    assert cut_source(log.state, log.state.facts.last_seq).messages[1].message.has_opaque


def test_no_signed_part_is_lost_by_what_never_touched_it() -> None:
    """Two compactions that keep the unit keep its bytes."""
    log = answered(*signed())
    for _ in range(2):
        log.read("b.py", 3_000)
        log.read("c.py", 3_000)
        made = planned(log, Reason.MANUAL)
        log.checkpoint(compact(log, made, summary="a ledger " * 20), made.source_seq)
        assert sent(log) == AS_THEY_CAME
    check_compacts(log.read("d.py", 40_000), Reason.MANUAL)
    assert sent(log) == []


def test_what_no_body_can_hold_is_left_out() -> None:
    """A lone surrogate can't be sent; a signed part is not mended, since its signature would no longer fit."""
    odd = Opaque("anthropic", "m", json.dumps({"type": "thinking", "thinking": "\ud83d", "signature": "c2ln"}))
    messages, _ = render(answered(Reasoning("x", odd), *signed()).state.items, "m")
    body = json.loads(joined(Bodies(lambda image: None).make(Request("m", "", (), tuple(messages), 4_000, 100))))
    assert problems(body | {"stream": True}) == []
    [answer] = [m for m in body["messages"] if m["content"][0]["type"] in ("thinking", "redacted_thinking")]
    assert [json.dumps(block) for block in answer["content"][:2]] == AS_THEY_CAME


# --- thinking that is asked for ---

THINKS = Limits(anthropic_thinking=2_000)


def with_loop(*parts: Part, then: str = "") -> Request:
    """A request whose tool loop is open, unless a person spoke `then`."""
    call = ToolCall("t1/1/c0", "read", "{}")
    said = (ToolResult("t1/1/c0", "text"),)
    messages = [*asks().messages, RequestMessage(Role.ASSISTANT, (*parts, call)), RequestMessage(Role.USER, said)]
    if then:
        messages += [RequestMessage(Role.ASSISTANT, (Text("done"),)), RequestMessage(Role.USER, (Text(then),))]
    return replace(asks(), messages=tuple(messages))


@pytest.mark.parametrize(
    ("request_", "limits", "budget_tokens"),
    [
        (asks(), THINKS, 2_000),
        (asks(), Limits(), None),
        (asks(), Limits(anthropic_thinking=1_023), None),
        (asks(most=3_000), THINKS, 1_500),
        (asks(most=2_000), THINKS, None),
        (with_loop(), THINKS, None),
        (with_loop(Text("Looking.")), THINKS, None),
        (with_loop(Reasoning("hm", Opaque("openai", MODEL, "{}"))), THINKS, None),
        (with_loop(then="And now?"), THINKS, 2_000),
    ],
)
async def test_thinking_is_asked_for_where_it_can_be(
    request_: Request, limits: Limits, budget_tokens: int | None
) -> None:
    """An open tool loop that lost what was signed goes on without; the server refuses everything else."""
    async with claude([says("Yes.")], limits) as c:
        await c.answer(request_)
        [body] = c.api.asked
    assert body.get("thinking", {}).get("budget_tokens") == budget_tokens


async def test_a_loop_that_kept_its_reasoning_goes_on_thinking() -> None:
    hidden = Raw({"type": "redacted_thinking", "data": "c2VjcmV0"})
    script = [says(Thought("Hm."), use("read", path="a")), says(hidden, use("read", path="b")), says("Done.")]
    async with claude(script, THINKS) as c:
        request = goes_on(asks(), await c.answer())
        request = goes_on(request, await c.answer(request))
        await c.answer(request)
        assert ["thinking" in body for body in c.api.asked] == [True, True, True]


async def test_a_loop_that_another_model_began_goes_on_without() -> None:
    """Switched in the middle of a turn: this turn's requests ask for none, the next turn's do again."""
    log = Log().prompt("look").answer(*signed("old"), ToolCall("c1", "read", "{}")).result("c1", "text")
    log.add(SessionConfigured(model=MODEL))
    async with claude([says("Done."), says("Yes.")], THINKS) as c:
        for _ in range(2):
            messages, _size = render(log.state.items, MODEL)
            await c.answer(replace(asks(), messages=tuple(messages)))
            if log.state.facts.open_turn:
                log.answer(Text("Done."), model=MODEL).end().prompt("And now?")
        assert ["thinking" in body for body in c.api.asked] == [False, True]
