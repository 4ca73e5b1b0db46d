"""Bytes of a recorded session to its records.

Invariant: reading is total. Whatever the bytes, there is a list of records and a list of what could not be read; the
accessors below give a neutral value for a field that is missing or of the wrong type.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ullage.core.messages import clean_text

Record = dict[str, Any]
"""A JSON object as it was recorded."""

_MOST = 2**53
_BLANK = " \t\r\n\0"


@dataclass(frozen=True, slots=True)
class Damage:
    """Something that could not be read. `line` counts from 1; 0 is the file as a whole."""

    line: int
    problem: str


def parse(content: bytes) -> tuple[list[tuple[int, Record]], list[Damage]]:
    """Records with their line numbers. Several JSON values may stand on one line; what follows a bad one is lost."""
    records: list[tuple[int, Record]] = []
    damage: list[Damage] = []
    for number, line in enumerate(content.split(b"\n"), 1):
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            damage.append(Damage(number, f"not UTF-8 at byte {error.start}"))
            text = line.decode("utf-8", "replace")
        for value in _values(text, number, damage):
            if isinstance(value, dict):
                records.append((number, value))
            else:
                damage.append(Damage(number, f"an object was expected, not {type(value).__name__}"))
    return records, damage


def _values(text: str, number: int, damage: list[Damage]) -> Iterator[Any]:
    decoder = json.JSONDecoder()
    text = text.removeprefix("\ufeff").strip(_BLANK)
    at = 0
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            damage.append(Damage(number, f"not JSON from character {at + 1}: {str(error)[:80]}"))
            return
        yield value
        while at < len(text) and text[at] in _BLANK:
            at += 1


# --- fields of any type ---


def object_in(record: Record, name: str) -> Record:
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def objects_in(record: Record, name: str) -> list[Record]:
    """The objects of a list; other members are left out."""
    value = record.get(name)
    return [member for member in value if isinstance(member, dict)] if isinstance(value, list) else []


def text_in(record: Record, name: str) -> str:
    value = record.get(name)
    return clean_text(value) if isinstance(value, str) else ""


def count_in(record: Record, name: str) -> int | None:
    """A token count; None for what is none."""
    value = record.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST else None


def number_in(record: Record, name: str) -> int | None:
    """A whole number of either sign, such as an exit code."""
    value = record.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MOST else None


def moment_in(record: Record, name: str = "timestamp") -> int | None:
    """UTC milliseconds of an ISO date; None for what is none."""
    try:
        at = datetime.fromisoformat(text_in(record, name))
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return max(0, int(at.timestamp() * 1000))
    except (ValueError, OverflowError):
        return None


def json_text(value: object) -> str:
    """A value as JSON text, without lone surrogates."""
    return clean_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
