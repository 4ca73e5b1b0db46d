"""The handoff record, its epoch, and the reminder."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.context.histories import COUNTER, Log, bare

from ullage.context.handoff import (
    TAG,
    HandoffState,
    handoff_state,
    make_record,
    parse_record,
    planned_reminder,
    reminder_text,
)
from ullage.context.occupancy import budget, occupancy
from ullage.context.request import render
from ullage.core.context import Occupancy, Phase
from ullage.core.exact import RECORD_MARK

FIELDS = {
    "version": 1,
    "messageId": "handoff-message-1",
    "observedPromptTokens": 75_000,
    "availableForInput": 100_000,
    "handoffThreshold": 70_000,
    "compactionThreshold": 80_000,
    "createdAt": "2026-02-03T04:05:06.007Z",
}
VALID = json.dumps(FIELDS)


def in_band(used: int = 75_000) -> Occupancy:
    log = Log(budget(110_000, "test", 10_000))
    now = occupancy(log.state, used, log.budget)
    return replace(now, used=used)


def check_record(change: dict[str, object], accepted: bool) -> None:
    assert (parse_record(json.dumps(FIELDS | change)) is not None) is accepted


# --- records ---


def test_a_record_is_made_and_read() -> None:
    """T015"""
    raw = make_record("id-1", in_band(), 1_770_091_506_007)
    record = parse_record(raw)
    assert record is not None
    assert (record.message_id, record.observed, record.available) == ("handoff-message-id-1", 75_000, 100_000)
    assert record.created_at == "2026-02-03T04:05:06.007Z"
    assert json.loads(raw).keys() == FIELDS.keys()


@pytest.mark.parametrize("used", [69_999, 80_000])
def test_no_record_outside_the_band(used: int) -> None:
    now = in_band(used)
    phase = Phase.BELOW_HANDOFF if used < 70_000 else Phase.COMPACTION_DUE
    with pytest.raises(ValueError, match="no valid handoff"):
        make_record("1", replace(now, phase=phase), 0)
    with pytest.raises(ValueError, match="no valid handoff"):
        make_record("\n", in_band(), 0)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},  # T016
        {"version": True},
        {"version": 1.0},
        {"messageId": ""},
        {"messageId": "a" * 129},
        {"messageId": "a\x1fb"},
        {"messageId": "a\x7fb"},
        {"messageId": 7},
        {"observedPromptTokens": 75_000.0},
        {"observedPromptTokens": -1},
        {"observedPromptTokens": True},
        {"observedPromptTokens": "75000"},
        {"observedPromptTokens": 69_999},  # T020
        {"observedPromptTokens": 80_000},
        {"availableForInput": 0},
        {"availableForInput": None},
        {"availableForInput": 100_010},
        {"handoffThreshold": 70_001},
        {"handoffThreshold": 70_000.0},
        {"compactionThreshold": 79_999},
        {"extra": 1},  # T018
        {"createdAt": "2026-02-31T04:05:06.007Z"},  # T019
        {"createdAt": "2026-02-03T24:00:00.000Z"},
        {"createdAt": "2026-02-03T04:05:06Z"},
        {"createdAt": "2026-02-03T04:05:06.0070Z"},
        {"createdAt": "2026-02-03T04:05:06.007+00:00"},
        {"createdAt": "2026-02-03 04:05:06.007Z"},
        {"createdAt": "２026-02-03T04:05:06.007Z"},
        {"createdAt": "2026-02-03T04:05:06.007Z\n"},
        {"createdAt": 1_770_091_506_007},
    ],
)
def test_strict_fields(change: dict[str, object]) -> None:
    """T016, T018, T019, T020"""
    check_record({}, True)
    check_record(change, False)


@pytest.mark.parametrize("missing", FIELDS)
def test_missing_fields(missing: str) -> None:
    """T018"""
    assert parse_record(json.dumps({key: value for key, value in FIELDS.items() if key != missing})) is None


@pytest.mark.parametrize(
    "raw", ["", "null", "[]", "{", VALID[:-1] + ',"version":1}', "[" * 100_000, VALID.replace("75000", "NaN")]
)
def test_malformed_text(raw: str) -> None:
    """T017: malformed text is no record, but stays a raw one."""
    assert parse_record(raw) is None
    log = Log().prompt("hi").handoff(raw)
    assert handoff_state(log.state) is HandoffState.SUPPRESSED


# --- epochs ---


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([], HandoffState.NONE),
        ([VALID], HandoffState.VALID),
        (["{}"], HandoffState.SUPPRESSED),
        ([VALID.replace('"version": 1', '"version": 2')], HandoffState.SUPPRESSED),
        ([VALID, VALID], HandoffState.SUPPRESSED),
        ([VALID, "{}"], HandoffState.SUPPRESSED),
        (["{}", VALID], HandoffState.SUPPRESSED),
    ],
)
def test_epoch_states(records: list[str], expected: HandoffState) -> None:
    """T028, T022: and only a valid one is shown to the model."""
    log = Log().prompt("hi")
    for record in records:
        log.handoff(record)
    assert handoff_state(log.state) is expected
    assert (TAG in shown(log)) is (expected is HandoffState.VALID)


def shown(log: Log) -> str:
    handoffs = [item.seq for item in log.state.items if hasattr(item, "record")]
    visible = handoffs[0] if handoff_state(log.state) is HandoffState.VALID else None
    return repr(render(log.state.items, "m", None, visible)[0])


def test_only_a_valid_checkpoint_opens_an_epoch() -> None:
    """T027"""
    log = Log(strict=False).prompt("hi").handoff("{}")
    log.checkpoint(replace(bare(), ledger="x" * 17_000_000))
    assert handoff_state(log.state) is HandoffState.SUPPRESSED
    log.checkpoint(bare())
    assert handoff_state(log.state) is HandoffState.NONE
    assert handoff_state(log.handoff(VALID).state) is HandoffState.VALID


# --- reminder ---


def test_reminder() -> None:
    """T021, T023, W-A11: one canonical text for a record, with the headroom on its last line; it teaches the syntax."""
    record = parse_record(VALID)
    assert record is not None
    text = reminder_text(record)
    first, *_, last = text.splitlines()
    assert first == TAG == '<token-budget-handoff version="1">'
    assert last.endswith(" 5000")
    assert len(text.encode()) <= 2_000
    for asked in ("objective", "decisions", "changed", "verified", "background", "blockers", "exact next action"):
        assert asked in text
    assert f"{RECORD_MARK} [heading] :: text" in text.splitlines()
    assert planned_reminder(75_000, in_band().budget) == text


def test_look_alike_text_is_a_persons_message() -> None:
    """T024: known by type, never by wording."""
    record = parse_record(VALID)
    assert record is not None
    log = Log().prompt(reminder_text(record))
    assert handoff_state(log.state) is HandoffState.NONE
    assert occupancy(log.state, 0, log.budget).hidden == 0
    assert COUNTER.count(reminder_text(record)) > 0
    assert TAG in shown(log)
