"""Payloads: one for everything that may be shown, none for anything hidden, and each method known in three places."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.core import strategies

from ullage.core.context import Reason, Strategy
from ullage.core.events import Entry
from ullage.core.messages import Message, Op, Role, Text, ToolCall, ToolFacts, ToolResult, Usage
from ullage.core.views import Shown, ShownAnswer, ShownResult, client_view
from ullage.editors import mapping, mapping_context
from ullage.editors import payloads as base
from ullage.editors import payloads_context as context
from ullage.editors import payloads_session as session
from ullage.editors import payloads_update as update
from ullage.editors.following import Following, join_deltas
from ullage.editors.handlers import Handlers
from ullage.editors.limits import Limits
from ullage.editors.lsp import read_settings
from ullage.editors.methods import METHODS, NOTIFICATIONS, REQUESTS_TO_CLIENT
from ullage.sessions.notices import Compacted, CompactionStatus, Delta, DeltaKind, Occupied

ROOT = Path(__file__).parents[2]


# --- the table of methods ---


def test_methods_are_registered_documented_and_declared() -> None:
    limits = Limits()
    registered = Handlers(Following(lambda *_: None, limits), limits, lambda: "id").table()
    schema = json.loads((ROOT / "docs" / "protocol.schema.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    declared = [method.name for method in METHODS]
    assert sorted(registered) == sorted(declared) == sorted(schema["methods"])
    everything = [*declared, *(each.name for each in (*NOTIFICATIONS, *REQUESTS_TO_CLIENT))]
    assert [name for name in everything if f"| `{name}` |" not in page] == []


def test_protocol_pages_are_current() -> None:
    """Else: `make docs`."""
    page = import_page()
    note = "<!-- Made by `make docs`; change the code instead. -->"
    assert (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8") == page.protocol_page(note)
    assert (ROOT / "docs" / "protocol.schema.json").read_text(encoding="utf-8") == page.schema_file()


def import_page() -> Any:
    spec = importlib.util.spec_from_file_location("protocol_page", ROOT / "docs" / "protocol_page.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SENT = (
    base.Abilities,
    base.ErrorPayload,
    *(method.result for method in METHODS),
    *(each.params for each in NOTIFICATIONS),
    *(method.params for method in REQUESTS_TO_CLIENT),
)
RECEIVED = (
    base.Options,
    base.EditorSettings,
    *(method.params for method in METHODS),
    *(method.result for method in REQUESTS_TO_CLIENT),
)


def with_nested(tops: Iterable[Any]) -> set[type[base.Payload]]:
    """These models and all that they hold."""
    found: set[type[base.Payload]] = set()
    waiting: list[Any] = [*tops]
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, type) and issubclass(kind, base.Payload):
            if kind not in found:
                found.add(kind)
                waiting += [field.annotation for field in kind.model_fields.values()]
        else:
            waiting += get_args(kind)
    return found


def test_every_field_says_what_it_is() -> None:
    """A field that holds another model is described by it."""
    models = with_nested((*SENT, *RECEIVED))
    silent = [
        f"{model.__name__}.{name}"
        for model in models
        for name, field in model.model_fields.items()
        if field.description is None and name != "kind" and not with_nested([field.annotation])
    ]
    assert silent == []
    assert [model.__name__ for model in models if not model.__doc__] == []


# --- nothing hidden ---

TEXT_THAT_LEAVES = {
    "Abilities": "methods notifications",
    "AnswerUpdate": "turn_id message_id text reasoning stop model",
    "AuthPayload": "provider",
    "BiggestPayload": "message_id category",
    "BlobPayload": "sha256",
    "CategoryPayload": "name",
    "CompactedUpdate": "ledger",
    "CompactionPayload": "session_id profile",
    "ConfigPayload": "model profile permission_mode",
    "CreatedUpdate": "root",
    "DeltaUpdate": "message_id call_id text",
    "ErrorPayload": "code message hint data",
    "ExportResult": "text",
    "HitPayload": "message_id label snippet",
    "ImagePayload": "media_type",
    "LeaveOutResult": "message_ids",
    "LeftOutPayload": "message_ids",
    "OccupancyFigures": "window_source",
    "OccupancyPayload": "window_source session_id",
    "ParentPayload": "session_id",
    "PermissionParams": "session_id call_id name arguments description shown targets sha256 careful grant",
    "PinPayload": "pin_id message_id text",
    "PinResult": "pin_id",
    "PinnedUpdate": "pin_id message_id text",
    "PromptRemovedUpdate": "turn_id",
    "PromptResult": "turn_id",
    "InstructionsUpdate": "path note",
    "PromptUpdate": "turn_id message_id text",
    "QueueUpdate": "held",
    "RedoneUpdate": "turns",
    "RenamedUpdate": "title",
    "RepairedUpdate": "kept_as",
    "ReportPayload": "profile restored_files failure",
    "RetryingUpdate": "message_id",
    "RewindResult": "turns written_files",
    "RewoundUpdate": "turn_id turns",
    "RootPayload": "root",
    "SessionPayload": "session_id root title running_turn waiting_turns held read_only",
    "SessionUpdate": "session_id",
    "SteerEnteredUpdate": "turn_id steer_id",
    "SummaryPayload": "session_id title",
    "ToolCallPayload": "call_id name arguments",
    "ToolResultPayload": "call_id text paths command detail",
    "ToolResultUpdate": "turn_id message_id",
    "TurnEndedUpdate": "turn_id",
    "TurnStartedUpdate": "turn_id",
    "UnpinnedUpdate": "pin_id",
    "WarningPayload": "session_id",
}
"""Each model the server sends, and its fields of text. Whoever adds one says here that no handoff can stand in it: what
stands in these comes from shown events, errors, settings and names alone."""


def test_no_field_could_carry_a_handoff() -> None:
    found = {
        model.__name__: " ".join(name for name, field in model.model_fields.items() if _is_text(field.annotation))
        for model in with_nested(SENT)
    }
    assert {name: fields for name, fields in found.items() if fields} == TEXT_THAT_LEAVES


def _is_text(kind: Any) -> bool:
    return kind is str or any(_is_text(part) for part in get_args(kind))


def test_hidden_is_a_figure() -> None:
    for model in (context.OccupancyFigures, context.OccupancyPayload):
        assert model.model_fields["hidden"].annotation is int


@pytest.mark.parametrize("kind", sorted(strategies.KINDS, key=lambda kind: kind.__name__))
def test_every_event_has_its_payload_or_none(kind: type[Any]) -> None:
    """Design 3.2: what is shown goes round the wire unchanged; what is hidden never gets there."""

    @settings(derandomize=True, max_examples=20, deadline=None)
    @given(strategies.BY_KIND[kind])
    def check(event: Any) -> None:
        shown = client_view(Entry(7, 1_000, event))
        if shown is None:
            assert kind.__name__ in {
                "StepStarted",
                "ImagesLeftOut",
                "ImagesMissing",
                "PermissionGranted",
                "UsageBooked",
                "TokensRecounted",
                "HandoffRecorded",
                "Unknown",
            }
            return
        payload = mapping.update_payload("s", shown)
        check_round_trip(payload)
        assert (payload.seq, payload.at) == (7, 1_000)

    check()


def check_round_trip(payload: base.Payload) -> None:
    """By alias through JSON, as a client would read it."""
    text = payload.model_dump_json(by_alias=True)
    assert "_" not in "".join(json.loads(text))
    assert type(payload).model_validate_json(text) == payload


def test_every_shown_kind_has_its_own_wire_kind() -> None:
    """The match in `mapping` is exhaustive for the type checker; here, that no two share a name."""
    kinds = [model.model_fields["kind"].default for model in get_args(update.DurableUpdate)]
    assert len(set(kinds)) == len(kinds)


@settings(derandomize=True, max_examples=50, deadline=None)
@given(strategies.occupancies, strategies.totals)
def test_occupancy_round_trips(occupancy: Any, totals: Any) -> None:
    payload = mapping_context.occupancy_payload("s", Occupied(occupancy, totals, totals))
    check_round_trip(payload)
    assert (payload.used, payload.window, payload.hidden) == (
        occupancy.used,
        occupancy.budget.window,
        occupancy.hidden,
    )


@settings(derandomize=True, max_examples=50, deadline=None)
@given(
    st.sampled_from(CompactionStatus),
    st.sampled_from(Reason),
    st.none() | st.sampled_from(Strategy),
    st.none() | strategies.reports,
    st.none() | strategies.errors,
)
def test_compaction_round_trips(status: Any, reason: Any, strategy: Any, report: Any, error: Any) -> None:
    check_round_trip(
        mapping_context.compaction_payload("s", Compacted(status, reason, "ullage", strategy, report, error))
    )


def test_delta_round_trips() -> None:
    payload = mapping.delta_payload("s", Delta(4, "t/1/a", DeltaKind.TEXT, 3, "é\ud800🍷"))
    check_round_trip(payload)
    assert payload.seq is None


def test_a_calls_output_round_trips() -> None:
    delta = Delta(4, "t/1/a", DeltaKind.OUTPUT, 3, "é\ud800🍷", "t/1/c1")
    payload = mapping.delta_payload("s", delta)
    check_round_trip(payload)
    assert isinstance(payload.update, update.DeltaUpdate) and payload.update.call_id == "t/1/c1"


def test_usage_that_is_no_count_is_not_reported() -> None:
    """A gateway's NaN or text must not cost the whole update."""
    usage = Usage(prompt=float("nan"), completion="7", total=True, cache_read=3)  # type: ignore[arg-type]
    shown = Shown(1, 1, ShownAnswer(Message("t/1/a", Role.ASSISTANT, (), "t"), usage, "end_turn", "m"))
    what = mapping.update_payload("s", shown).update
    assert isinstance(what, update.AnswerUpdate)
    assert what.usage.model_dump(exclude_none=True) == {"cache_read": 3}


# --- the cap ---


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        ([10], [10]),
        ([100], [100]),
        ([101], [100]),
        ([60, 60], [60, 40]),
        ([100, 5], [100, 0]),
        ([0, 5], [0, 5]),
    ],
)
def test_tool_text_is_capped_and_says_so(sizes: list[int], kept: list[int]) -> None:
    """Bugs row 59: results and arguments alike, all of an update together."""
    limits = Limits(update_bytes=100)
    facts = ToolFacts(Op.READ)
    results = tuple(ToolResult(f"c{number}", "x" * size, facts=facts) for number, size in enumerate(sizes))
    calls = tuple(ToolCall(f"c{number}", "read", "x" * size) for number, size in enumerate(sizes))
    result = mapping.update_payload("s", Shown(1, 1, ShownResult(Message("r", Role.TOOL, results, "t"))), limits).update
    answer = mapping.update_payload(
        "s", Shown(1, 1, ShownAnswer(Message("a", Role.ASSISTANT, (Text("y"), *calls), "t"), Usage(), "x", "m")), limits
    ).update
    assert isinstance(result, update.ToolResultUpdate) and isinstance(answer, update.AnswerUpdate)
    assert [(len(each.text), each.text_bytes) for each in result.results] == list(zip(kept, sizes, strict=True))
    assert [(len(each.arguments), each.arguments_bytes) for each in answer.calls] == list(zip(kept, sizes, strict=True))


def test_the_cap_never_splits_a_character() -> None:
    results = (ToolResult("c", "é" * 60),)
    shown = Shown(1, 1, ShownResult(Message("r", Role.TOOL, results, "t")))
    what = mapping.update_payload("s", shown, Limits(update_bytes=99)).update
    assert isinstance(what, update.ToolResultUpdate)
    assert (what.results[0].text, what.results[0].text_bytes) == ("é" * 49, 120)


# --- merging deltas ---


@pytest.mark.parametrize(
    ("pieces", "merged"),
    [
        ([(0, "a")], (0, "a")),
        ([(3, "ab"), (5, "c"), (6, "é🍷"), (8, "d")], (3, "abcé🍷d")),
        ([(5, "b"), (0, "whole"), (5, "!")], (0, "whole!")),
    ],
)
def test_waiting_deltas_melt_into_one(pieces: list[tuple[int, str]], merged: tuple[int, str]) -> None:
    parts = [
        mapping.delta_payload("s", Delta(1, "m", DeltaKind.TEXT, offset, text)).model_dump(mode="json", by_alias=True)
        for offset, text in pieces
    ]
    joined = join_deltas(parts)
    assert (joined["update"]["offset"], joined["update"]["text"]) == merged
    update.SessionUpdate.model_validate_json(json.dumps(joined))


# --- what comes in ---


@pytest.mark.parametrize(
    ("model", "params"),
    [
        (session.PromptParams, {"sessionId": "s"}),
        (session.PromptParams, {"sessionId": "s", "text": 1}),
        (session.PromptParams, {"sessionId": "s", "text": "x", "mode": "now"}),
        (session.PromptParams, {"sessionId": "s", "text": "x", "turnId": "a/b"}),
        (session.PromptParams, {"sessionId": "s", "text": "x", "mentions": ["a\nb"]}),
        (session.OpenParams, {"sessionId": "s", "fromSeq": "3"}),
        (session.OpenParams, {"sessionId": "s", "fromSeq": 3.0}),
        (session.OpenParams, {"sessionId": "s", "fromSeq": True}),
        (session.OpenParams, {"sessionId": "s", "fromSeq": -1}),
        (session.CompactParams, {"sessionId": "s", "dryRun": 1}),
        (session.ConfigureParams, {"sessionId": "s", "permissionMode": "root"}),
        (session.ConfigureParams, {"sessionId": "s", "window": 10}),
        (session.RenameParams, {"sessionId": "s", "title": "x" * 201}),
        (base.TrustParams, {"root": "/a", "trusted": "yes"}),
        (base.AuthParams, {"provider": "anthropic"}),
        (base.AuthParams, {"provider": "anthropic", "key": 5}),
    ],
)
def test_wrong_types_are_refused(model: type[base.Payload], params: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        model.model_validate(params)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_unknown_fields_are_ignored(method: Any) -> None:
    """A newer client may say more."""
    known = {
        "sessionId": "s",
        "text": "x",
        "turnId": "t",
        "title": "x",
        "root": "/a",
        "trusted": True,
        "provider": "anthropic",
        "key": None,
        "query": "x",
        "pinId": "x",
    }
    method.params.model_validate(known | {"later": {"jsonrpc": "2.0"}})


def test_lone_surrogates_are_replaced_on_the_way_in() -> None:
    params = session.PromptParams.model_validate({"sessionId": "s", "text": "a\ud800b 🍷"})
    assert params.text == "a\ufffdb 🍷"


@pytest.mark.parametrize(
    ("said", "good", "problems"),
    [
        ({}, {}, 0),
        ({"window": 32_000, "compactionAuto": False}, {"window": 32_000, "compaction_auto": False}, 0),
        ({"outputCap": None}, {"output_cap": None}, 0),
        ({"window": "big", "profile": "blade"}, {"profile": "blade"}, 1),
        ({"nope": 1, "baseUrl": "x"}, {}, 2),
    ],
)
def test_settings_that_are_wrong_are_left_out(said: dict[str, Any], good: dict[str, Any], problems: int) -> None:
    read, wrong = read_settings(said)
    assert (read, len(wrong)) == (good, problems)
