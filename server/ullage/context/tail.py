"""The tail of a replacement: the newest units of the source, within a budget.

Invariant: a tail never separates a call from its result, and what it keeps passes the checkpoint's pairing rule. One
unit that is too large, however large, takes half of what is left in a shortened form; older units have the rest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ullage.context.limits import BOUNDS
from ullage.context.occupancy import count_message
from ullage.context.request import orphan_note
from ullage.context.shorten import clip, level
from ullage.core.context import Kept
from ullage.core.messages import Image, Opaque, Part, Reasoning, Role, Text, ToolCall, ToolResult
from ullage.core.ports import TokenCounter
from ullage.core.units import Unit

_PART_LEAST = 8
"""Tokens that any part takes at the least, however short it is cut."""


def fill_tail(
    messages: Sequence[Kept],
    cuts: Sequence[Unit],
    room: int,
    counter: TokenCounter,
    *,
    plain: bool,
    pending: set[str],
    apart: set[str],
) -> tuple[Kept, ...]:
    """The newest units that fit into `room` tokens, in order. `cuts` are the units of `messages`.

    `plain` leaves out reasoning and images, and calls nobody answered unless they are `pending`. Messages whose ids
    are in `apart` are kept elsewhere, or nowhere.
    """
    chosen: list[list[Kept]] = []
    for unit in reversed(cuts):
        if room < BOUNDS.smallest_unit:
            break
        whole = messages[unit.start : unit.end]
        pieces = sound([piece for piece in whole if piece.message.message_id not in apart], counter)
        if plain:
            pieces = _plain(pieces, pending, counter)
        if _tokens(pieces) > room and any(piece.message.role is not Role.USER for piece in pieces):
            pieces = _shrunk(_plain(pieces, pending, counter), room // 2, counter)
        # What a person said is never shortened here: where it does not fit, it stands among the words.
        if _tokens(pieces) <= room:
            room -= _tokens(pieces)
            chosen.append(pieces)
    return tuple(kept for pieces in reversed(chosen) for kept in pieces)


def _tokens(pieces: Iterable[Kept]) -> int:
    return sum(piece.tokens for piece in pieces)


# --- soundness ---


def sound(pieces: Iterable[Kept], counter: TokenCounter) -> list[Kept]:
    """The pieces with pairing repaired: a result without its call becomes a note, a second one is dropped."""
    known: set[str] = set()
    open_calls: set[str] = set()
    repaired: list[Kept] = []
    for piece in pieces:
        calls = {call.call_id for call in piece.message.calls} if piece.message.role is Role.ASSISTANT else set()
        known |= calls
        open_calls |= calls
        parts = tuple(_sound_parts(piece.message.parts, known, open_calls))
        repaired += _with_parts(piece, parts, counter)
    return repaired


def _sound_parts(parts: Iterable[Part], known: set[str], open_calls: set[str]) -> Iterator[Part]:
    for part in parts:
        if not isinstance(part, ToolResult) or part.call_id in open_calls:
            yield part
        elif part.call_id not in known:
            yield Text(orphan_note(part))
        if isinstance(part, ToolResult):
            open_calls.discard(part.call_id)


def _with_parts(piece: Kept, parts: tuple[Part, ...], counter: TokenCounter) -> list[Kept]:
    """The piece with other parts, counted again if they are others; nothing when none is left."""
    if parts == piece.message.parts:
        return [piece]
    if not parts:
        return []
    message = replace(piece.message, parts=parts)
    return [Kept(piece.seq, message, count_message(message, counter))]


# --- plain form ---


def _plain(pieces: list[Kept], pending: set[str], counter: TokenCounter) -> list[Kept]:
    """Without reasoning, opaque parts and images, and without calls that got no result (blade 2.13)."""
    answered = {result.call_id for piece in pieces for result in piece.message.results} | pending
    found: list[Kept] = []
    for piece in pieces:
        parts = tuple(part for old in piece.message.parts for part in _plain_part(old, answered))
        said = any(not isinstance(part, Text) or part.text.strip() for part in parts)
        found += _with_parts(piece, parts if said else (), counter)
    return found


def _plain_part(part: Part, answered: set[str]) -> tuple[Part, ...]:
    match part:
        case Reasoning() | Opaque():
            return ()
        case Image():
            return (Text(image_note(part)),)
        case ToolCall():
            return (part,) if part.call_id in answered else ()
        case ToolResult() if part.images:
            notes = [image_note(image) for image in part.images]
            return (replace(part, text="\n".join([part.text, *notes]), images=()),)
        case _:
            return (part,)


def image_note(image: Image) -> str:
    """What stands for an image that is not kept."""
    return f"[{image.media_type} image, {image.width} x {image.height}, no longer in view]"


# --- shrinking ---


def _shrunk(pieces: list[Kept], room: int, counter: TokenCounter) -> list[Kept]:
    """The pieces cut down to `room` tokens, texts, arguments and results alike; nothing when that can't be done."""
    parts = [part for piece in pieces for part in piece.message.parts]
    if not parts or _PART_LEAST * len(parts) > room:
        return []
    lengths = [_length(part) for part in parts]

    def short(chars: int) -> list[Kept]:
        cap = level(lengths, chars)
        return [_cut(piece, cap, counter) for piece in pieces]

    least = short(0)
    floor, chars = _tokens(least), 4 * room
    if floor > room:
        return []
    # What the notes take is the same however much is kept, so the guess goes by what is above that.
    while (taken := _tokens(found := short(chars))) > room:
        chars = max(0, min(chars * (room - floor) // (taken - floor), chars - 1) - chars // 50)
        if chars == 0:
            return least
    return found


def _length(part: Part) -> int:
    match part:
        case Text(text) | ToolResult(_, text):
            return len(text)
        case ToolCall():
            return len(part.arguments)
        case _:
            return 0


def _cut(piece: Kept, cap: int, counter: TokenCounter) -> Kept:
    parts = tuple(_cut_part(part, cap) for part in piece.message.parts)
    return _with_parts(piece, parts, counter)[0]


def _cut_part(part: Part, cap: int) -> Part:
    match part:
        case Text(text):
            return Text(clip(text, cap))
        case ToolResult():
            where = f"read_output {part.full.sha256} has all of it" if part.full else ""
            return replace(part, text=clip(part.text, cap, where))
        case ToolCall():
            return replace(part, arguments=short_arguments(part.arguments, cap))
        case _:
            return part


def short_arguments(raw: str, chars: int) -> str:
    """Tool arguments with about `chars` characters: the same JSON object with its long strings shortened.

    So a path stays beside the head and tail of what was written to it. Anything else becomes one shortened string.
    """
    if len(raw) <= chars:
        return raw
    try:
        data = json.loads(raw)
        texts = list(_strings(data))
        cap = level([len(text) for text in texts], chars)
        short = json.dumps(_map_strings(data, lambda text: clip(text, cap)), ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        data = short = None
    if isinstance(data, dict) and short is not None and len(short) <= 2 * chars + 200 * min(len(texts), 4):
        return short
    return json.dumps({"shortened": clip(raw, chars)}, ensure_ascii=False)


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _strings(item)
        case dict():
            for item in value.values():
                yield from _strings(item)


def _map_strings(value: Any, change: Callable[[str], str]) -> Any:
    match value:
        case str():
            return change(value)
        case list():
            return [_map_strings(item, change) for item in value]
        case dict():
            return {key: _map_strings(item, change) for key, item in value.items()}
        case _:
            return value
