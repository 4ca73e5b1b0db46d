"""Events and their JSON: what a log's lines hold.

Invariants: `decode_event(encode_event(e)) == e` for every event. Decoding is total: an unknown kind, and a known kind
whose payload has the wrong types, become `Unknown` with the raw text; nothing raises.

The JSON follows the dataclasses of `core`: a record is an object of its fields, an enum its word, a tuple a list, a
member of a union an object with its `type`. A field that is null or an empty list is left out, and a field that is
missing takes its default, so a newer version may add one. Kinds and types are named here and never change, whatever
the classes are called; `docs/log-format.md` describes each, and a golden log of every kind guards the rest.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from ullage.core import context, errors, events, grants, messages, state
from ullage.core.events import Event, Unknown

KINDS: dict[str, Any] = {
    "session_created": events.SessionCreated,
    "session_forked": events.SessionForked,
    "session_renamed": events.SessionRenamed,
    "session_configured": events.SessionConfigured,
    "prompt_queued": events.PromptQueued,
    "prompt_edited": events.PromptEdited,
    "prompt_removed": events.PromptRemoved,
    "queue_held": events.QueueHeld,
    "queue_released": events.QueueReleased,
    "turn_started": events.TurnStarted,
    "steer_entered": events.SteerEntered,
    "step_started": events.StepStarted,
    "images_left_out": events.ImagesLeftOut,
    "images_missing": events.ImagesMissing,
    "answer_received": events.AnswerReceived,
    "result_received": events.ResultReceived,
    "usage_booked": events.UsageBooked,
    "turn_ended": events.TurnEnded,
    "tokens_recounted": events.TokensRecounted,
    "handoff_recorded": events.HandoffRecorded,
    "items_omitted": events.ItemsOmitted,
    "items_restored": events.ItemsRestored,
    "instructions_added": events.InstructionsAdded,
    "checkpoint_committed": events.CheckpointCommitted,
    "compaction_failed": events.CompactionFailed,
    "pin_added": events.PinAdded,
    "pin_removed": events.PinRemoved,
    "session_rewound": events.SessionRewound,
    "session_redone": events.SessionRedone,
    "permission_granted": grants.PermissionGranted,
    "log_repaired": events.LogRepaired,
    "damage_accepted": events.DamageAccepted,
}
"""Every kind of event by the word that stands in the log."""

TYPES: dict[str, Any] = {
    "text": messages.Text,
    "reasoning": messages.Reasoning,
    "image": messages.Image,
    "tool_call": messages.ToolCall,
    "tool_result": messages.ToolResult,
    "opaque": messages.Opaque,
    "message": state.MessageItem,
    "replacement": state.ReplacementItem,
    "omission": state.OmissionItem,
    "instructions": state.InstructionsItem,
}
"""Members of a union (a message's parts, what the model sees) by the word in their `type`."""

FIRST = ("facts",)
"""Fields written before their siblings: a list of sessions finds a title in a checkpoint line's first bytes."""

_KIND_OF = {cls: kind for kind, cls in KINDS.items()}
_TYPE_OF = {cls: name for name, cls in TYPES.items()}

Json = Any
"""A value as the JSON module gives it; the functions below check it."""


class Malformed(Exception):
    """A payload isn't what its kind demands. Never leaves this package."""


def encode_event(seq: int, event: Event) -> dict[str, Json]:
    """The event's JSON object: `seq`, `kind`, then its fields."""
    if isinstance(event, Unknown):
        return {**json.loads(event.raw), "seq": seq}
    cls: Any = type(event)
    return {"seq": seq, "kind": _KIND_OF[cls], **_codec(cls)[0](event)}


def decode_event(record: dict[str, Json], raw: Callable[[], str]) -> tuple[Event, str | None]:
    """The event of a JSON object, and what is wrong with it when it is a known kind that can't be read.

    `raw` gives the object's JSON text; it's only asked for what this version doesn't understand.
    """
    kind = record.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        return Unknown(str(kind), record.get("critical") is True, raw()), None
    try:
        return decode_known(record), None
    except Malformed as problem:
        return Unknown(str(kind), False, raw()), f"{kind} could not be read: {problem}"


def decode_known(record: dict[str, Json]) -> Event:
    """The event of a JSON object of a kind that this version knows.

    Raises:
        Malformed: it knows no such kind, or the payload is wrong.
    """
    kind = record.get("kind")
    cls = KINDS.get(kind) if type(kind) is str else None
    if cls is None:
        raise Malformed(f"kind {kind!r} is not known")
    event: Event = _codec(cls)[1](record)
    return event


# --- codecs, made once for each type from its annotations ---

Codec = tuple[Callable[[Any], Json], Callable[[Json], Any]]


@cache
def _codec(kind: Any) -> Codec:
    """How a type is written and read."""
    if kind in (str, int, bool):
        return _same, _primitive(kind)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _same, _word(kind)
    if get_origin(kind) is tuple:
        return _tuple(get_args(kind))
    if get_origin(kind) in (Union, UnionType):
        return _union(get_args(kind))
    if dataclasses.is_dataclass(kind):
        return _record(kind)
    raise TypeError(f"no record shape for {kind}")


def _same(value: Any) -> Json:
    return value


def _primitive(kind: type) -> Callable[[Json], Any]:
    def decode(value: Json) -> Any:
        # Not isinstance: true is no number.
        if type(value) is not kind:
            raise Malformed(f"{kind.__name__} expected")
        return value

    return decode


def _word(kind: type[StrEnum]) -> Callable[[Json], Any]:
    words = {str(word): word for word in kind}

    def decode(value: Json) -> Any:
        if type(value) is not str or value not in words:
            raise Malformed(f"one of {', '.join(words)} expected")
        return words[value]

    return decode


def _tuple(members: tuple[Any, ...]) -> Codec:
    if len(members) == 2 and members[1] is Ellipsis:
        return _list(members[0])
    codecs = [_codec(member) for member in members]

    def encode(value: tuple[Any, ...]) -> Json:
        return [codec[0](cell) for codec, cell in zip(codecs, value, strict=True)]

    def decode(value: Json) -> Any:
        if type(value) is not list or len(value) != len(codecs):
            raise Malformed(f"list of {len(codecs)} expected")
        return tuple([codec[1](cell) for codec, cell in zip(codecs, value, strict=True)])

    return encode, decode


def _list(member: Any) -> Codec:
    encode_cell, decode_cell = _codec(member)

    def encode(value: tuple[Any, ...]) -> Json:
        return [encode_cell(cell) for cell in value]

    def decode(value: Json) -> Any:
        if type(value) is not list:
            raise Malformed("list expected")
        return tuple([decode_cell(cell) for cell in value])

    return encode, decode


def _union(members: tuple[Any, ...]) -> Codec:
    present = [member for member in members if member is not NoneType]
    if len(present) == 1:
        return _optional(present[0])
    if set(present) <= {str, int}:
        return _same, _either(present)
    return _tagged({_TYPE_OF[member]: member for member in present})


def _optional(member: Any) -> Codec:
    encode_some, decode_some = _codec(member)
    return (
        lambda value: None if value is None else encode_some(value),
        lambda value: None if value is None else decode_some(value),
    )


def _either(kinds: list[type]) -> Callable[[Json], Any]:
    def decode(value: Json) -> Any:
        if type(value) not in kinds:
            raise Malformed("text or number expected")
        return value

    return decode


def _tagged(members: dict[str, type]) -> Codec:
    encoders = {cls: (name, _codec(cls)[0]) for name, cls in members.items()}
    decoders = {name: _codec(cls)[1] for name, cls in members.items()}

    def encode(value: Any) -> Json:
        name, encode_member = encoders[type(value)]
        return {"type": name, **encode_member(value)}

    def decode(value: Json) -> Any:
        name = value.get("type") if type(value) is dict else None
        if type(name) is not str or name not in decoders:
            raise Malformed(f"type {name!r} is not known")
        return decoders[name](value)

    return encode, decode


_NAMESPACES = [vars(module) for module in (context, errors, events, messages, state)]
_NAMES = {name: value for namespace in _NAMESPACES for name, value in namespace.items()}
_REQUIRED = object()


def _record(cls: Any) -> Codec:
    hints = get_type_hints(cls, localns=_NAMES)
    fields = dataclasses.fields(cls)
    encoders = [(f.name, _codec(hints[f.name])[0]) for f in sorted(fields, key=lambda f: f.name not in FIRST)]

    def encode(value: Any) -> Json:
        found = ((name, getattr(value, name), encode_field) for name, encode_field in encoders)
        return {name: encode_field(cell) for name, cell, encode_field in found if cell is not None and cell != ()}

    return encode, _record_decoder(cls, hints)


def _record_decoder(cls: Any, hints: dict[str, Any]) -> Callable[[Json], Any]:
    """A function generated for the class: a loop over its fields would take thrice as long, and every event of a log
    comes through here."""
    known: dict[str, Any] = {"cls": cls, "Malformed": Malformed, "none": object(), "refuse": _refuse}
    arguments = []
    for field in dataclasses.fields(cls):
        name, hint, missing = field.name, hints[field.name], _when_missing(field, hints[field.name])
        known[f"decode_{name}"], known[f"missing_{name}"] = _codec(hint)[1], missing
        given = f"decode_{name}(cell)"
        if hint in (str, int, bool):
            # Most of what there is, so it is looked at in place.
            given = f"cell if type(cell) is {hint.__name__} else refuse({hint.__name__})"
        wanted = f"value[{name!r}]" if missing is _REQUIRED else f"get({name!r}, none)"
        arguments.append(f"missing_{name} if (cell := {wanted}) is none else {given}")
    source = f"""
def decode(value):
    if type(value) is not dict:
        raise Malformed("{cls.__name__} expected")
    get = value.get
    try:
        return cls({", ".join(arguments)})
    except KeyError as name:
        raise Malformed(f"{{name}} is missing") from None
"""
    exec(source, known)
    decode: Callable[[Json], Any] = known["decode"]
    return decode


def _refuse(kind: type) -> None:
    raise Malformed(f"{kind.__name__} expected")


def _when_missing(field: dataclasses.Field[Any], hint: Any) -> Any:
    """The value of a field that was left out: nothing, an empty tuple, or the default of a field added later."""
    if NoneType in get_args(hint):
        return None
    if get_origin(hint) is tuple and Ellipsis in get_args(hint):
        return ()
    if field.default is not dataclasses.MISSING:
        return field.default
    # A factory's value is shared: everything here is frozen.
    return _REQUIRED if field.default_factory is dataclasses.MISSING else field.default_factory()
