"""What a model is asked for a ledger: behind the last request, or as text that gets smaller step by step."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from tests.context.histories import BIG, COUNTER, Log, bare, image, live_log
from tests.context.test_compaction import FIXED, planned, reading
from tests.context.test_handoff import VALID

from ullage.context.ledger import escape_headings, ledger_text
from ullage.context.occupancy import occupancy
from ullage.context.request import build
from ullage.context.summary import LastRequest, summary_request
from ullage.core.context import Reason
from ullage.core.exact import HEADINGS, RECORD_MARK
from ullage.core.messages import Text, ToolCall
from ullage.core.ports import ModelCard
from ullage.core.requests import Request, RequestTool
from ullage.testing.validator import problems

TOOLS = (RequestTool("read", "Read a file.", "{}"),)
SYSTEM = "You are careful."


def last(log: Log) -> LastRequest:
    return LastRequest(SYSTEM, TOOLS, occupancy(log.state, FIXED.tokens, log.budget))


def asked(log: Log, shrinks: int = 0, *, aligned: bool = True, **options: object) -> Request | None:
    made = planned(log, **options)  # type: ignore[arg-type]
    of = last(log) if aligned else None
    found = summary_request(made, log.state, log.budget, "m", COUNTER, last=of, shrinks=shrinks)
    assert found is None or problems(found, log.budget.window) == []
    return found


def ask(log: Log, shrinks: int = 0, **options: object) -> Request:
    found = asked(log, shrinks, **options)  # type: ignore[arg-type]
    assert found is not None
    return found


def text_of(request: Request) -> str:
    return "\n".join(block.text for message in request.messages for block in message.blocks if isinstance(block, Text))


def check_extends(log: Log) -> None:
    """The last request is a prefix: same fixed part, same blocks; behind it one question."""
    request = ask(log)
    before = build(log.state, SYSTEM, TOOLS, ModelCard("m", log.budget.window, "t"), 100, last(log).now).request
    assert (request.model, request.system, request.tools) == (before.model, before.system, before.tools)
    old = [block for message in before.messages for block in message.blocks]
    new = [block for message in request.messages for block in message.blocks]
    assert new[:-1] == old
    assert [text_of(request).count(f"## {heading}\n") >= 1 for heading in HEADINGS] == [True] * 7


@pytest.mark.parametrize("seed", range(8))
def test_it_extends_the_last_request_byte_for_byte(seed: int) -> None:
    """Design 6.7, W-A1: whatever the history; the calls and their arguments are in it as they were sent."""
    log = live_log(random.Random(seed), 6, BIG, 3_000)
    check_extends(log)
    check_extends(log.prompt("and now").read("a.py"))


def test_an_extension_has_neither_handoff_nor_images() -> None:
    """T042, T045: placeholders even then, and the state stays as it was."""
    log = reading(200_000, 20).end()
    log.prompt("look", image(name="f")).answer(Text("a cat")).handoff(VALID).answer(ToolCall("c", "read", "{}"))
    log.result("c", "shown", images=(image(name="e"),))
    before = list(log.state.items)
    request = ask(log)
    shown = repr(request)
    assert "token-budget-handoff" not in shown and "BlobRef" not in shown
    assert shown.count("image/png image, 64 x 64") == 2
    assert list(log.state.items) == before


@pytest.mark.parametrize(
    ("window", "reason", "aligned"),
    [
        (200_000, Reason.THRESHOLD, True),
        (None, Reason.MANUAL, True),
        (200_000, Reason.OVERFLOW, False),
        (30_000, Reason.MANUAL, False),
    ],
)
def test_which_form_is_chosen(window: int | None, reason: Reason, aligned: bool) -> None:
    """Flattened where the aligned one does not fit, or a request like it was just refused."""
    log = reading(window, 25)
    assert bool(ask(log, reason=reason).tools) is aligned


def check_smaller(log: Log, shrinks: int, *, gone: str = "", stays: str = "", **options: object) -> None:
    more, less = ask(log, shrinks - 1, **options), ask(log, shrinks, **options)  # type: ignore[arg-type]
    assert len(repr(less)) < len(repr(more))
    assert gone in text_of(more) and (not gone or gone not in text_of(less))
    assert stays in text_of(less)


def test_the_steps_of_shrinking() -> None:
    """T064, T065: files that can be read again first, then the oldest quarter of the units, and newer ones stay."""
    log = Log(BIG).prompt("the task")
    log.tool("bash", '{"command": "make"}', "BUILD LOG " + "b" * 900).read("src/a.py", 3_000)
    for number in range(8):
        log.tool("bash", f'{{"command": "step {number}"}}', "o" * 2_000)
    check_smaller(log, 1, gone="x" * 400, stays="can be read again: src/a.py", aligned=False)
    check_smaller(log, 2, gone="BUILD LOG", stays="step 7", aligned=False)
    assert "step 0" in text_of(ask(log, 2, aligned=False))
    check_smaller(log, 3, gone="step 0", stays="step 7", aligned=False)


def test_messages_are_cut_last() -> None:
    """T066: 5,000, 2,500, 1,250, 625 characters, head and tail (W-A9); then no smaller one exists (T068)."""
    log = Log(BIG).prompt("A" * 20_000 + f"\n{RECORD_MARK} [Exact next action] :: make deploy").end()
    sizes = [text_of(ask(log, step, aligned=False)).count("A") for step in range(4)]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > 3_600 and 400 < sizes[3] < 625
    assert "make deploy" in text_of(ask(log, 3, aligned=False))
    assert asked(log, 4, aligned=False) is None
    assert [record.payload for record in log.state.facts.records] == ["make deploy"]


def test_an_aligned_request_that_does_not_fit_becomes_text() -> None:
    log = reading(200_000, 30)
    first, second = ask(log), ask(log, 1)
    assert first.tools and not second.tools
    assert len(repr(second)) < len(repr(first))
    assert "can be read again: src/f29.py" in text_of(second)


@pytest.mark.parametrize("seed", range(6))
def test_every_step_is_strictly_smaller_and_they_end(seed: int) -> None:
    """Blade 2.10: a step that does not make it strictly smaller ends sampling."""
    log = live_log(random.Random(seed), 5, BIG, 2_000)
    sizes: list[int] = []
    while (request := asked(log, len(sizes), reason=Reason.MANUAL)) is not None:
        sizes.append(len(repr(request)))
    assert len(sizes) > 2
    assert all(later < sooner for sooner, later in pairwise(sizes))


def test_what_is_asked() -> None:
    """T046, T050, W-A1: every rule and heading, what a person asked, earlier headings escaped in text."""
    log = Log(BIG).checkpoint(bare(ledger=ledger_text("## Exact next action\nold", "facts")))
    log.prompt("go").tool("bash", '{"command": "make deploy ENV=stg"}', "S" * 90_000 + "exit 7")
    made = planned(log)
    assert made.ask_frontier
    flat = text_of(ask(log, aligned=False, instructions="mind the database"))
    for told in ("make deploy ENV=stg", "exit 7", "mind the database", "frontier", "Invent no", "credentials"):
        assert told in flat
    assert [flat.count(heading) for heading in HEADINGS] == [1] * 7
    assert escape_headings("Exact next action") in flat
    extension = text_of(ask(log, instructions="mind the database"))
    for told in ("mind the database", "frontier", "Call no tool", "Invent no"):
        assert told in extension


def test_the_output_is_what_is_left() -> None:
    log = reading(200_000, 30)
    for most, output in ((24_000, 8_000), (500, 500), (None, 8_000)):
        made = summary_request(planned(log), log.state, log.budget, "m", COUNTER, most_output=most)
        assert made is not None and made.max_output == output
