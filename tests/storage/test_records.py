"""Every event survives being written; nothing that was written makes reading fail."""

from __future__ import annotations

import dataclasses
import json
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.storage.histories import result

from ullage.core import context, errors, events, messages, state
from ullage.core.events import Unknown
from ullage.core.messages import Image
from ullage.core.state import Carried
from ullage.storage.lines import event_text
from ullage.storage.records import KINDS, TYPES, decode_event, encode_event

NAMES = {name: value for module in (context, errors, events, messages, state) for name, value in vars(module).items()}
ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=12)


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a field's type, from its annotation."""
    if kind is str:
        return ANY_TEXT
    if kind is int:
        return st.integers(-(2**70), 2**70)
    if kind is bool:
        return st.booleans()
    if kind is NoneType:
        return st.none()
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return st.sampled_from(list(kind))
    if get_origin(kind) is tuple:
        member, *more = get_args(kind)
        if more == [Ellipsis]:
            return st.lists(values(member), max_size=2).map(tuple)
        return st.tuples(*(values(each) for each in (member, *more)))
    if get_origin(kind) in (Union, UnionType):
        return st.one_of(*(values(member) for member in get_args(kind)))
    hints = get_type_hints(kind, localns=NAMES)
    return st.builds(kind, **{f.name: st.deferred(lambda t=hints[f.name]: values(t)) for f in dataclasses.fields(kind)})


def read_back(event: events.Event) -> events.Event:
    text = event_text(7, event)
    assert text.isascii()
    assert "\n" not in text
    decoded, problem = decode_event(json.loads(text), lambda: text)
    assert problem is None
    return decoded


CARRYING = ("checkpoint_committed", "session_rewound", "session_redone")
"""Kinds that hold the state's bounded half, which takes long to draw."""


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_survives(kind: str) -> None:
    """R11, R13: decode(encode(e)) == e for each kind, checkpoints with their facts included; any text at all."""

    @settings(max_examples=8 if kind in CARRYING else 25, deadline=None, derandomize=True, database=None)
    @given(values(KINDS[kind]))
    def check(event: events.Event) -> None:
        assert read_back(event) == event

    check()


def test_every_event_has_a_kind() -> None:
    assert set(get_args(events.Event)) == {*KINDS.values(), Unknown}
    assert {*get_args(messages.Part), *get_args(Carried)} == set(TYPES.values())


@pytest.mark.parametrize("critical", [True, False])
def test_unknown_kind_is_kept_raw(critical: bool) -> None:
    """R13: an invented kind comes back as the text it was, 10^30 and NaN included."""
    flag = ',"critical":true' if critical else ""
    raw = '{"seq":7,"kind":"telepathy"' + flag + ',"n":1000000000000000000000000000000,"x":NaN}'
    event, problem = decode_event(json.loads(raw), lambda: raw)
    assert (event, problem) == (Unknown("telepathy", critical, raw), None)
    assert event_text(7, event) == raw


def test_unknown_fields_are_passed_over() -> None:
    record = {**encode_event(1, events.TurnStarted("t")), "colour": "blue"}
    assert decode_event(record, str)[0] == events.TurnStarted("t")


def test_a_field_added_later_takes_its_default() -> None:
    """R13: a log of a version that didn't have the field yet."""
    event = result("t", 1, "c")
    record = json.loads(event_text(1, event))
    del record["message"]["parts"][0]["is_error"]
    assert decode_event(record, str) == (event, None)


BROKEN = {
    "number for text": {"kind": "turn_started", "turn_id": 5},
    "missing": {"kind": "turn_started"},
    "true for a number": {"kind": "handoff_recorded", "record": "", "tokens": True},
    "null for a number": {"kind": "handoff_recorded", "record": "", "tokens": None},
    "float for a number": {"kind": "handoff_recorded", "record": "", "tokens": 1.0},
    "unknown word": {"kind": "turn_ended", "turn_id": "t", "stop": "exploded"},
    "list for an object": {"kind": "session_forked", "parent": []},
    "object for a list": {"kind": "damage_accepted", "ranges": {}},
    "short pair": {"kind": "damage_accepted", "ranges": [[1]]},
    "unknown part": {
        "kind": "prompt_edited",
        "message": {"message_id": "m", "role": "user", "parts": [{"type": "smell"}], "turn_id": "t"},
        "tokens": 1,
        "encoding": "e",
    },
    "part without type": {
        "kind": "prompt_edited",
        "message": {"message_id": "m", "role": "user", "parts": [5], "turn_id": "t"},
        "tokens": 1,
        "encoding": "e",
    },
}


@pytest.mark.parametrize("name", BROKEN)
def test_wrong_payload_is_kept_raw_and_reported(name: str) -> None:
    """Bugs row 27: an entry that can't be read becomes a visible one, not an exception."""
    record = {"seq": 3, **BROKEN[name]}
    event, problem = decode_event(record, lambda: json.dumps(record))
    assert event == Unknown(str(record["kind"]), False, json.dumps(record))
    assert problem is not None


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(
    st.sampled_from(sorted(KINDS)),
    st.recursive(
        st.none() | st.booleans() | st.integers() | ANY_TEXT,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
        max_leaves=8,
    ),
    st.randoms(use_true_random=False),
)
def test_any_payload_is_read(kind: str, value: Any, rng: Any) -> None:
    """Decoding is total: any JSON in any field of any kind."""
    names = [field.name for field in dataclasses.fields(KINDS[kind])]
    record = {"seq": 1, "kind": kind, **{name: value for name in names if rng.random() < 0.8}}
    decode_event(record, lambda: "raw")


def test_images_and_blobs_are_records_too() -> None:
    image = Image(messages.BlobRef("ab" * 32, 10), "image/png", 2, 3)
    message = messages.Message("m", messages.Role.USER, (image,), "t")
    event = events.PromptEdited(message, 1, "e")
    assert read_back(event) == event


def test_the_format_page_names_every_kind_and_field() -> None:
    """docs/log-format.md has one row per kind with its fields; a renamed field fails here."""
    page = (Path(__file__).parents[2] / "docs" / "log-format.md").read_text()
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in page.splitlines() if line[:3] == "| `"]
    described = {row[0].strip("`"): sorted(row[1].replace("`", "").split()) for row in rows}
    for kind, cls in KINDS.items():
        assert described.get(kind) == sorted(field.name for field in dataclasses.fields(cls)), kind
    assert {kind for kind in described if "_" in kind} == set(KINDS)
