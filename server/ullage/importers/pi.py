"""pi's session files, version 1: linear, one record after another, sometimes two on a line."""

from __future__ import annotations

from collections import Counter
from typing import Final

from ullage.core.messages import Image, Opaque, Part, Reasoning, Text, ToolCall, Usage
from ullage.core.ports import TokenCounter
from ullage.importers.images import picture
from ullage.importers.records import (
    Record,
    count_in,
    json_text,
    moment_in,
    number_in,
    object_in,
    objects_in,
    parse,
    text_in,
)
from ullage.importers.story import (
    Answer,
    Compacted,
    Configured,
    Imported,
    Prompt,
    Raw,
    Reading,
    Result,
    Said,
    What,
    tell,
    text_parts,
)

FORMAT: Final = "pi"

KINDS: Final = {
    "session": "the session's id and folder, and its first model",
    "message/user": "a prompt that starts a turn, or steering where the model has yet to answer to a result",
    "message/assistant": "an answer; one that was aborted or failed ends its turn as cancelled or failed",
    "message/toolResult": "a result of its call",
    "message/bashExecution": "a message that no person typed: a command the person ran, with its output",
    "compaction": "a checkpoint: the summary as its ledger, the messages from the record it names as its tail",
    "model_change": "the session is configured with another model",
    "thinking_level_change": "kept whole",
}
"""Record kind to what becomes of it. A kind that is not here is kept whole as well, under its own name."""

_STOPS: Final = {
    "aborted": "cancelled",
    "error": "failed",
    "toolUse": "tool_use",
    "stop": "end_turn",
    "length": "max_tokens",
}


def read(content: bytes, counter: TokenCounter) -> Imported:
    """Import a session. Never raises: what can't be read is named in `damage`."""
    records, damage = parse(content)
    kinds: Counter[str] = Counter()
    images: dict[str, bytes] = {}
    said: list[Said] = []
    # Places are numbers of records, since a compaction names the first one it keeps.
    for place, (_, record) in enumerate(records):
        kind = kind_of(record)
        kinds[kind] += 1
        said += [Said(place, moment_in(record), what) for what in _whats(kind, record, images)]
    head = next((record for _, record in records if record.get("type") == "session"), {})
    session_id = text_in(head, "id") or "imported"
    return tell(Reading(FORMAT, session_id, text_in(head, "cwd"), said, kinds, damage, images), counter)


def kind_of(record: Record) -> str:
    """The kind of a record, a key of `KINDS` unless the format has grown."""
    kind = text_in(record, "type") or "untyped"
    return f"message/{text_in(object_in(record, 'message'), 'role') or 'untyped'}" if kind == "message" else kind


def _whats(kind: str, record: Record, images: dict[str, bytes]) -> list[What]:
    message = object_in(record, "message")
    match kind:
        case "session" | "model_change":
            return [Configured(text_in(record, "modelId") or None)]
        case "message/user":
            return [Prompt(tuple(_parts(message, images)))]
        case "message/assistant":
            stop = text_in(message, "stopReason")
            return [
                Answer(
                    tuple(_parts(message, images)),
                    _usage(object_in(message, "usage")),
                    _STOPS.get(stop, stop),
                    text_in(message, "model"),
                )
            ]
        case "message/toolResult":
            parts = _parts(message, images)
            text = "\n".join(part.text for part in parts if isinstance(part, Text))
            pictures = tuple(part for part in parts if isinstance(part, Image))
            return [Result(text_in(message, "toolCallId"), text, message.get("isError") is True, pictures)]
        case "message/bashExecution":
            return [Prompt((Text(_ran(message)),), "shell")]
        case "compaction":
            kept = count_in(record, "firstKeptEntryIndex")
            return [Compacted(text_in(record, "summary"), count_in(record, "tokensBefore"), kept_from=kept)]
        case _:
            return [Raw(kind, record)]


def _parts(message: Record, images: dict[str, bytes]) -> list[Part]:
    if isinstance(message.get("content"), str):
        return list(text_parts(text_in(message, "content")))
    provider, model = text_in(message, "provider"), text_in(message, "model")
    return [_part(block, provider, model, images) for block in objects_in(message, "content")]


def _part(block: Record, provider: str, model: str, images: dict[str, bytes]) -> Part:
    match block.get("type"):
        case "text":
            return Text(text_in(block, "text"))
        case "thinking":
            signed = Opaque(provider, model, json_text(block)) if text_in(block, "thinkingSignature") else None
            return Reasoning(text_in(block, "thinking"), signed)
        case "toolCall":
            return ToolCall("", text_in(block, "name"), json_text(block.get("arguments", {})), text_in(block, "id"))
        case "image" if found := picture(text_in(block, "data"), text_in(block, "mimeType")):
            image, content = found
            images[image.blob.sha256] = content
            return image
        case _:
            return Opaque(provider, model, json_text(block))


def _ran(message: Record) -> str:
    """A command that the person ran, as the model is told of it."""
    code = number_in(message, "exitCode")
    ended = "was cancelled" if message.get("cancelled") is True else f"ended with exit code {code}"
    output = text_in(message, "output").rstrip()
    return f"The person ran `{text_in(message, 'command')}`, which {ended}:\n\n{output or '(no output)'}"


def _usage(usage: Record) -> Usage:
    """What the provider reported; `input` are the tokens that no cache held."""
    fresh, completion = count_in(usage, "input"), count_in(usage, "output")
    read, written = count_in(usage, "cacheRead"), count_in(usage, "cacheWrite")
    prompt = None if fresh is None else fresh + (read or 0) + (written or 0)
    return Usage(prompt, completion, count_in(usage, "totalTokens") or None, read, written)
