"""Importers: every record kind has its place in the table, nothing is dropped silently, any bytes give a value."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.importers.samples import COUNTER, PNG, Claude, claude_code, codex, lines, pi, pi_message, text, use

from ullage.core.errors import BadInput
from ullage.core.events import AnswerReceived, CheckpointCommitted, Event, Stop, TurnEnded, Unknown, UsageBooked
from ullage.core.messages import UNANSWERED, Image, Message, Op, Reasoning, Role, Text, ToolResult
from ullage.core.reduce import fold, resume
from ullage.core.state import MessageItem
from ullage.importers import claude_code as claude_code_format
from ullage.importers import codex as codex_format
from ullage.importers import pi as pi_format
from ullage.importers.reading import READERS, format_of, read
from ullage.importers.story import Imported
from ullage.storage.records import decode_event, encode_event

DOCS = Path(__file__).parents[2] / "docs"
SAMPLES: dict[str, Callable[[], bytes]] = {
    "claude_code": lambda: claude_code().content,
    "codex": lambda: lines(*codex()),
    "pi": lambda: lines(*pi()),
}
KINDS = {
    "claude_code": claude_code_format.KINDS,
    "codex": codex_format.KINDS,
    "pi": pi_format.KINDS,
}


def imported(name: str) -> Imported:
    return READERS[name](SAMPLES[name](), COUNTER)


def of(found: Imported, kind: type[Event]) -> list[Event]:
    return [entry.event for entry in found.entries if isinstance(entry.event, kind)]  # type: ignore[arg-type]


def messages(found: Imported) -> list[Message]:
    """Every message of the log, answers and all."""
    said = (getattr(entry.event, "message", None) for entry in found.entries)
    return [message for message in said if isinstance(message, Message)]


def results(found: Imported) -> list[ToolResult]:
    return [result for message in messages(found) for result in message.results]


# --- what holds for all ---


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_the_table_is_met_and_stands_in_the_docs(name: str) -> None:
    found = imported(name)
    assert found.kinds.keys() == KINDS[name].keys()
    page = (DOCS / "importers.md").read_text(encoding="utf-8")
    rows = [f"| `{kind}` | {becomes} |" for kind, becomes in KINDS[name].items()]
    assert not [row for row in rows if row not in page]
    assert sum(page.count(f"| `{kind}` |") for kind in KINDS[name]) == len(rows)


@pytest.mark.parametrize("name", KINDS)
def test_what_the_table_keeps_whole_is_there_whole(name: str) -> None:
    found, whole = imported(name), dict[str, int]()
    for kind, becomes in KINDS[name].items():
        if "kept whole" in becomes:
            whole[kind] = found.kinds[kind]
    assert {kind: found.raw.get(kind) for kind in whole} == whole
    kept = [json.loads(event.raw)["record"] for event in of(found, Unknown)]  # type: ignore[union-attr]
    given = [json.loads(line) for line in SAMPLES[name]().splitlines()]
    assert all(record in given for record in kept)


@pytest.mark.parametrize("name", KINDS)
def test_the_state_is_the_fold_and_has_no_anomalies(name: str) -> None:
    found = imported(name)
    assert found.state.facts.anomalies == () and found.damage == ()
    assert fold(found.entries) == found.state
    last = max(index for index, entry in enumerate(found.entries) if isinstance(entry.event, CheckpointCommitted))
    assert fold(found.entries[last + 1 :], resume(found.entries[last])) == found.state
    assert [entry.seq for entry in found.entries] == list(range(len(found.entries)))
    assert found.state.facts.open_turn is None


@pytest.mark.parametrize("name", KINDS)
def test_every_event_can_be_logged(name: str) -> None:
    for entry in imported(name).entries:
        if not isinstance(entry.event, Unknown):
            record = json.loads(json.dumps(encode_event(entry.seq, entry.event)))
            assert decode_event(record, lambda: "") == (entry.event, None)


@pytest.mark.parametrize("name", KINDS)
def test_an_unknown_kind_is_kept_and_counted(name: str) -> None:
    content = SAMPLES[name]() + lines({"type": "from_the_future", "text": "x"})
    found = READERS[name](content, COUNTER)
    assert found.kinds["from_the_future"] == found.raw["from_the_future"] == 1
    assert found.state.items == imported(name).state.items


@pytest.mark.parametrize("name", KINDS)
def test_the_format_is_told_by_its_records(name: str, tmp_path: Path) -> None:
    assert format_of(SAMPLES[name]()) == name
    (tmp_path / "session.jsonl").write_bytes(SAMPLES[name]())
    assert read(tmp_path / "session.jsonl", COUNTER).entries == imported(name).entries


def test_a_file_of_no_known_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Notes", encoding="utf-8")
    for name in ("notes.md", "missing.jsonl"):
        with pytest.raises(BadInput):
            read(tmp_path / name, COUNTER)


# --- totality ---


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.sampled_from(sorted(KINDS)), st.binary(max_size=300))
def test_any_bytes_give_a_value(name: str, content: bytes) -> None:
    READERS[name](content, COUNTER)
    found = READERS[name](SAMPLES[name]() + content, COUNTER)
    assert found.state.facts.anomalies == ()


@settings(max_examples=150, derandomize=True, deadline=None)
@given(st.sampled_from(sorted(KINDS)), st.integers(0, 10**9))
def test_any_field_may_be_of_any_type(name: str, seed: int) -> None:
    """A field that is not what it should be never raises, and leaves no impossible event."""
    rng = random.Random(seed)
    records = [json.loads(line) for line in SAMPLES[name]().splitlines()]
    for _ in range(rng.randint(1, 6)):
        _spoil(rng, rng.choice(records))
    rng.random() < 0.3 and rng.shuffle(records)
    found = READERS[name](lines(*records), COUNTER)
    assert found.state.facts.anomalies == () and sum(found.kinds.values()) == len(records)


def _spoil(rng: random.Random, value: object) -> None:
    """Replace a value somewhere in a record."""
    odd = [None, True, -1, 1e300, float("nan"), "", "\ud800", [], {}, [[]], [None], {"a": {}}, 10**400, "x" * 50]
    while True:
        inside = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
        if not inside:
            return
        key = rng.choice(inside)
        if not isinstance(value[key], dict | list) or not value[key] or rng.random() < 0.3:  # type: ignore[index]
            value[key] = rng.choice(odd)  # type: ignore[index]
            return
        value = value[key]  # type: ignore[index]


@pytest.mark.parametrize(
    ("content", "n_damage", "n_prompts"),
    [
        (b"", 0, 0),
        (b"\n\n \r\n", 0, 0),
        (b"{", 1, 0),
        (b"\xff\xfe{}", 2, 0),
        (b"[1]\n7\nnull\n", 3, 0),
        (b"[" * 100_000, 1, 0),
        (lines(pi_message("user", "one")).strip() + lines(pi_message("user", "two")), 0, 2),
        (lines(pi_message("user", "one")).strip() + b" nonsense\n" + lines(pi_message("user", "two")), 1, 2),
    ],
)
def test_damage_is_named_and_the_rest_is_read(content: bytes, n_damage: int, n_prompts: int) -> None:
    """Several values may stand on one line; what follows a bad one on its line is lost, and said so."""
    found = pi_format.read(content, COUNTER)
    assert (len(found.damage), found.kinds.get("message/user", 0)) == (n_damage, n_prompts)


# --- Claude Code ---


def test_claude_code_joins_the_records_of_an_answer() -> None:
    found = imported("claude_code")
    first = of(found, AnswerReceived)[0]
    assert isinstance(first, AnswerReceived)
    assert [type(part).__name__ for part in first.message.parts] == ["Reasoning", "ToolCall", "ToolCall"]
    assert (first.usage.completion, first.stop) == (40, "tool_use")
    assert [call.provider_id for call in first.message.calls] == ["c1", "c2"]
    assert len(of(found, AnswerReceived)) == 6


def test_claude_code_fills_facts() -> None:
    found = {result.facts.op: result.facts for result in results(imported("claude_code"))}
    assert found[Op.READ].paths == ("a.py",) and found[Op.WRITE].paths == ("b.py",)
    ran = found[Op.RUN]
    assert (ran.command, ran.exit_code, ran.detail) == ("make test", 2, "E: boom")


def test_claude_code_tells_who_wrote_a_message() -> None:
    found = imported("claude_code")
    said = {message.text: message.origin for message in messages(found) if message.role is Role.USER}
    assert said["mend the parser"] is said["be quick"] is said["more"] is None
    assert said["Caveat: made by a hook"] == said["<local-command-stdout>Bye</local-command-stdout>"] == "host"
    assert "How to review" not in said
    assert any(result.text == "Launching\n\nHow to review" for result in results(found))


def test_claude_code_images_sidechains_and_interrupts() -> None:
    found = imported("claude_code")
    [image] = [part for message in messages(found) for part in message.parts if isinstance(part, Image)]
    assert (image.width, image.height, found.images[image.blob.sha256]) == (640, 480, PNG)
    [booked] = of(found, UsageBooked)
    assert isinstance(booked, UsageBooked) and booked.usage.prompt == 910
    assert found.unanswered == ("c5",)
    assert Stop.CANCELLED in [event.stop for event in of(found, TurnEnded)]  # type: ignore[union-attr]


def test_claude_code_compaction_is_a_checkpoint() -> None:
    found = imported("claude_code")
    [committed] = of(found, CheckpointCommitted)
    assert isinstance(committed, CheckpointCommitted)
    assert committed.replacement.ledger == "What happened: much."
    assert (committed.report.before, committed.report.reason) == (5_000, "manual")
    assert [item.message.text for item in found.state.items if isinstance(item, MessageItem)] == ["go on", "gone on"]


def test_claude_code_placeholder_usage_is_estimated() -> None:
    """An answer without a stop reason has the `output_tokens` of its beginning."""
    session = Claude().user("hi")
    session.answer("m1", text("x" * 400), stop=None, usage={"input_tokens": 10, "output_tokens": 1})
    session.answer("m2", text("x" * 400), stop="end_turn", usage={"input_tokens": 10, "output_tokens": 1})
    answers = of(claude_code_format.read(session.content, COUNTER), AnswerReceived)
    assert [answer.usage.completion for answer in answers] == [125, 1]  # type: ignore[union-attr]


def test_claude_code_results_find_their_calls_out_of_order() -> None:
    session = Claude().user("hi").result("a", "before its call")
    session.answer("m1", use("a", "Read"), use("b", "Read"), use("b", "Read"))
    session.answer("m2", text("went on")).result("b", "first b").result("a", "late a").result("b", "second b")
    session.result("nobody", "orphan")
    found = claude_code_format.read(session.content, COUNTER)
    assert [result.text for result in results(found)] == ["first b", "late a", "second b"]
    assert found.raw["orphan result"] == len(found.damage) == 2 and not found.state.facts.anomalies


# --- codex ---


def test_codex_answers_end_with_their_usage() -> None:
    answers = of(imported("codex"), AnswerReceived)
    told = [(a.usage.prompt, len(a.message.calls), a.message.text) for a in answers]  # type: ignore[union-attr]
    assert told == [(1_000, 2, "On it."), (1_200, 3, ""), (None, 1, ""), (900, 0, "Done.")]
    opaque = [part for part in answers[0].message.parts if isinstance(part, Reasoning)]  # type: ignore[union-attr]
    assert opaque[0].text == "hm" and opaque[0].opaque is not None and "xyz" in opaque[0].opaque.raw


def test_codex_fills_facts_and_tells_who_wrote() -> None:
    found = imported("codex")
    assert [(r.facts.op, r.facts.command, r.facts.exit_code, r.facts.paths) for r in results(found)][:4] == [
        (Op.RUN, "true", 0, ()),
        (Op.RUN, "make", 2, ()),
        (Op.WRITE, None, None, ("src/a.py", "new.md")),
        (Op.RUN, "ls", 0, ()),
    ]
    origins = [(m.text, m.origin) for m in messages(found) if m.role is Role.USER]
    assert dict(origins) == {"mend it": None, "rules": "host", "more rules": "host", "# AGENTS.md": "host"}
    assert found.unanswered == ("c6",) and found.state.facts.config.window == 258_400


def test_codex_replacement_history_is_the_tail() -> None:
    [committed] = of(imported("codex"), CheckpointCommitted)
    assert isinstance(committed, CheckpointCommitted)
    assert committed.replacement.ledger == "So far."
    assert [kept.message.role for kept in committed.replacement.tail] == [Role.USER, Role.ASSISTANT]


# --- pi ---


def test_pi_aborted_answers_end_their_turns() -> None:
    found = imported("pi")
    stops = [answer.stop for answer in of(found, AnswerReceived)]  # type: ignore[union-attr]
    assert stops == ["tool_use", "cancelled", "cancelled", "tool_use", "end_turn"]
    assert [event.stop for event in of(found, TurnEnded)] == ["cancelled", "cancelled", "done"]  # type: ignore[union-attr]
    assert found.unanswered == ("c2",)
    assert [result.text for result in results(found)] == ["Command exited with code 3", UNANSWERED, "ok"]


def test_pi_compaction_keeps_from_the_record_it_names() -> None:
    found = imported("pi")
    [committed] = of(found, CheckpointCommitted)
    assert isinstance(committed, CheckpointCommitted)
    kept = [kept.message for kept in committed.replacement.tail]
    assert [message.role for message in kept] == [Role.ASSISTANT, Role.TOOL]
    assert kept[0].calls[0].name == "write" and results(found)[0].facts.exit_code == 3


def test_pi_tells_what_a_person_ran() -> None:
    [ran] = [message for message in messages(imported("pi")) if message.origin == "shell"]
    assert isinstance(ran.parts[0], Text) and "`ls`" in ran.text and "a.py" in ran.text
