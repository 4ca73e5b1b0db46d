"""Real recorded sessions, against what is known of them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.importers.recorded import FILES, needs_data, session

from ullage.core.events import AnswerReceived, ResultReceived
from ullage.core.messages import Image, Message, Op, Reasoning, Text, ToolResult
from ullage.core.reduce import fold
from ullage.importers import claude_code, codex, pi
from ullage.importers.story import Imported

pytestmark = needs_data

KINDS = {claude_code.FORMAT: claude_code.KINDS, codex.FORMAT: codex.KINDS, pi.FORMAT: pi.KINDS}


@dataclass(frozen=True)
class Known:
    answers: int
    calls: int
    compactions: int
    unanswered: int = 0
    errors: int | None = None
    thinking: int | None = None
    images: int = 0
    peak: int = 0
    """Thousands of tokens of the largest prompt."""


KNOWN = {
    "claude-code-parallel.jsonl": Known(169, 220, 2, errors=6, thinking=165, peak=150),
    "claude-code-3-compactions.jsonl": Known(225, 206, 3, errors=12, thinking=225, peak=155),
    "claude-code-user-image.jsonl": Known(134, 127, 1, unanswered=1, images=1, peak=167),
    "codex-rollout-2-compactions.jsonl": Known(214, 362, 2, thinking=164, peak=239),
    "pi-before-compaction.jsonl": Known(484, 454, 2, unanswered=6, peak=185),
    "pi-large-session.jsonl": Known(453, 391, 0, unanswered=18, peak=178),
}


def answers(found: Imported) -> list[AnswerReceived]:
    return [entry.event for entry in found.entries if isinstance(entry.event, AnswerReceived)]


def results(found: Imported) -> list[ToolResult]:
    said = (entry.event for entry in found.entries)
    return [result for event in said if isinstance(event, ResultReceived) for result in event.message.results]


@pytest.mark.parametrize("name", FILES)
def test_counts_are_those_of_the_recording(name: str) -> None:
    found, known = session(name), KNOWN[name]
    parts = [part for answer in answers(found) for part in answer.message.parts]
    real_errors = sum(result.is_error for result in results(found)) - len(found.unanswered)
    thinking = sum(isinstance(part, Reasoning) for part in parts)
    peak = max(answer.usage.prompt or 0 for answer in answers(found))
    assert found.damage == () and found.state.facts.anomalies == ()
    assert (len(answers(found)), len(results(found))) == (known.answers, known.calls)
    assert (found.state.facts.compactions, len(found.unanswered)) == (known.compactions, known.unanswered)
    assert known.errors in (None, real_errors) and known.thinking in (None, thinking)
    assert (len(found.images), round(peak / 1_000)) == (known.images, known.peak)


@pytest.mark.parametrize("name", FILES)
def test_every_kind_that_is_met_is_in_the_table(name: str) -> None:
    found = session(name)
    assert not found.kinds.keys() - KINDS[found.format].keys()
    assert not found.raw.keys() - found.kinds.keys()


@pytest.mark.parametrize("name", FILES)
def test_the_state_is_the_fold(name: str) -> None:
    assert fold(session(name).entries) == session(name).state


def test_messages_of_each_format_are_all_there() -> None:
    rollout, short, long = (session(name) for name in (FILES[3], FILES[4], FILES[5]))
    said = [part for answer in answers(rollout) for part in answer.message.parts if isinstance(part, Text)]
    assert (len(said), rollout.kinds["response_item/message/user"]) == (196, 15)
    assert rollout.kinds["event_msg/token_count"] + rollout.kinds["event_msg/token_count: repeated"] == 218
    for found, messages, aborted in ((short, 990, 18), (long, 914, 21)):
        assert sum(count for kind, count in found.kinds.items() if kind.startswith("message/")) == messages
        assert sum(answer.stop == "cancelled" for answer in answers(found)) == aborted


def test_parallel_calls_stay_in_one_answer() -> None:
    assert sum(len(answer.message.calls) > 1 for answer in answers(session(FILES[0]))) == 32


def test_the_image_is_a_users() -> None:
    said = (getattr(entry.event, "message", None) for entry in session(FILES[2]).entries)
    [image] = [p for m in said if isinstance(m, Message) for p in m.parts if isinstance(p, Image)]
    assert min(image.width, image.height) > 1 and image.blob.sha256 in session(FILES[2]).images


@pytest.mark.parametrize("name", FILES)
def test_results_prove_something(name: str) -> None:
    """Commands have their command and, unless they still run or failed without one, an exit code; files their path."""
    found = [result for result in results(session(name)) if result.facts.op is not Op.OTHER]
    ran = [result.facts for result in found if result.facts.op is Op.RUN]
    wrote = [result.facts for result in found if result.facts.op is Op.WRITE]
    assert ran and all(facts.command for facts in ran)
    assert sum(facts.exit_code is not None for facts in ran) >= len(ran) * 9 // 10
    assert wrote and all(facts.paths for facts in wrote)
