"""Claude Code's session files.

One record a line. An answer of the API is spread over several records with one `message.id`: they are joined at the
first, and results that arrived in between follow. The order is that of the file. `docs/importers.md` has the table.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Final

from ullage.context.limits import BOUNDS
from ullage.core.messages import Image, Opaque, Part, Reasoning, Text, ToolCall, Usage
from ullage.core.ports import TokenCounter
from ullage.core.ratio import corrected, prior
from ullage.importers.images import picture
from ullage.importers.records import (
    Damage,
    Record,
    count_in,
    json_text,
    moment_in,
    object_in,
    objects_in,
    parse,
    text_in,
)
from ullage.importers.story import (
    Answer,
    Aside,
    Compacted,
    Configured,
    Imported,
    Interrupted,
    Prompt,
    Raw,
    Reading,
    Result,
    Said,
    What,
    tell,
    text_parts,
)

FORMAT: Final = "claude_code"

_RAW: Final = "kept whole"
KINDS: Final = {
    "user": "a prompt that starts a turn, or steering where the model has yet to answer to a result",
    "user: tool_result": "a result of its call; text beside it is steering",
    "user: meta": "a message that no person typed; a skill's text joins the result of the call it names",
    "user: command": "a message that no person typed: output of a local command, a notice of the program",
    "user: interrupted": "the turn ends as cancelled",
    "user: compact summary": "the ledger of the checkpoint whose boundary stands before it",
    "assistant": "an answer, joined with the records of the same message id; its usage is counted once, and "
    "estimated where the file only has what was known when the answer began",
    "assistant: synthetic": "kept whole: no call was made",
    "sidechain: user": "kept whole: another agent's conversation",
    "sidechain: assistant": "kept whole: another agent's conversation; its usage is booked once",
    "repeated record": "kept whole: a record of the same uuid came before",
    "system/compact_boundary": "a checkpoint, with the summary that follows as its ledger",
    "system/microcompact_boundary": "kept whole: later requests lack the results it names, ours keep them",
    "system/stop_hook_summary": _RAW,
    "system/turn_duration": _RAW,
    "system/local_command": _RAW,
    "system/api_error": _RAW,
    "system/informational": _RAW,
    "progress": _RAW,
    "attachment": _RAW,
    "file-history-snapshot": _RAW,
    "queue-operation": "kept whole: what was queued comes again as a message",
    "summary": "kept whole: a title of another conversation",
    "pr-link": _RAW,
}
"""Record kind to what becomes of it. A kind that is not here is kept whole as well, under its own name."""

_NOT_TYPED: Final = (
    "<local-command-",
    "<bash-stdout>",
    "<bash-stderr>",
    "<task-notification>",
    "<system-reminder>",
    "<user-memory-input>",
    "Caveat: ",
)
_INTERRUPTED: Final = "[Request interrupted by user"


def read(content: bytes, counter: TokenCounter) -> Imported:
    """Import a session. Never raises: what can't be read is named in `damage`."""
    records, damage = parse(content)
    return tell(_Reader(records, damage, counter).reading(), counter)


@dataclass(slots=True)
class _Joined:
    """An answer on its way: parts of all its records, and the newest usage."""

    parts: list[Part] = field(default_factory=list)
    usage: Record = field(default_factory=dict)
    stop: str = ""
    model: str = ""


class _Reader:
    def __init__(self, records: list[tuple[int, Record]], damage: list[Damage], counter: TokenCounter) -> None:
        self.records, self.damage, self.counter = records, damage, counter
        self.kinds: Counter[str] = Counter()
        self.images: dict[str, bytes] = {}
        self.said: list[Said] = []
        self.joined: dict[str, _Joined] = {}
        self.seen: set[str] = set()
        self.boundary: Record | None = None
        self.skills: dict[str, list[str]] = {}

    def reading(self) -> Reading:
        for _, record in self.records:
            self._join(record)
        told: set[str] = set()
        for place, record in self.records:
            kind = kind_of(record, self.seen)
            self.kinds[kind] += 1
            whats = list(self._whats(kind, record, told))
            self.said += [Said(place, moment_in(record), what) for what in whats]
        if self.boundary is not None:
            self.said.append(Said(len(self.records), None, _checkpoint(self.boundary, "")))
        first = next((record for _, record in self.records if text_in(record, "cwd")), {})
        said = [self._with_skill(one) for one in self.said]
        session_id = text_in(first, "sessionId") or "imported"
        return Reading(FORMAT, session_id, text_in(first, "cwd"), said, self.kinds, self.damage, self.images)

    # --- joining answers ---

    def _join(self, record: Record) -> None:
        """Take a record's part of an answer; sidechains are joined too, for their usage."""
        if record.get("type") != "assistant":
            return
        message = object_in(record, "message")
        key = _answer_id(record)
        answer = self.joined.setdefault(key, _Joined(model=text_in(message, "model")))
        usage = object_in(message, "usage")
        if (count_in(usage, "output_tokens") or 0) >= (count_in(answer.usage, "output_tokens") or 0):
            answer.usage = usage
        answer.stop = text_in(message, "stop_reason") or answer.stop
        uuid = text_in(record, "uuid")
        if not uuid or uuid not in self.seen:
            answer.parts += self._parts(message, answer.model)
        self.seen.add(uuid)

    def _parts(self, message: Record, model: str) -> list[Part]:
        if isinstance(message.get("content"), str):
            return list(text_parts(text_in(message, "content")))
        return [self._part(block, model) for block in objects_in(message, "content")]

    def _part(self, block: Record, model: str) -> Part:
        match block.get("type"):
            case "text":
                return Text(text_in(block, "text"))
            case "thinking":
                signed = Opaque("anthropic", model, json_text(block)) if text_in(block, "signature") else None
                return Reasoning(text_in(block, "thinking"), signed)
            case "tool_use":
                return ToolCall("", text_in(block, "name"), json_text(block.get("input", {})), text_in(block, "id"))
            case "image" if (image := self._image(block)) is not None:
                return image
            case _:
                return Opaque("anthropic", model, json_text(block))

    def _image(self, block: Record) -> Image | None:
        source = object_in(block, "source")
        found = picture(text_in(source, "data"), text_in(source, "media_type"))
        if found is None or not found[1]:
            return None
        image, content = found
        self.images[image.blob.sha256] = content
        return image

    # --- records ---

    def _whats(self, kind: str, record: Record, told: set[str]) -> list[What]:
        message = object_in(record, "message")
        if self.boundary is not None and kind.startswith(("user", "assistant")) and kind != "user: compact summary":
            # A boundary whose summary is missing: a checkpoint without words.
            boundary, self.boundary = self.boundary, None
            return [_checkpoint(boundary, ""), *self._whats(kind, record, told)]
        match kind:
            case "assistant":
                return self._answer(_answer_id(record), told)
            case "sidechain: assistant":
                return [*self._aside(_answer_id(record), told), Raw(kind, record)]
            case "user: compact summary":
                boundary, self.boundary = self.boundary or {}, None
                return [_checkpoint(boundary, _text_of(message))]
            case "system/compact_boundary":
                self.boundary = record
                return []
            case "user: interrupted":
                return [Prompt(tuple(self._parts(message, "")), "notice"), Interrupted()]
            case "user: meta" if text_in(record, "sourceToolUseID"):
                self.skills.setdefault(text_in(record, "sourceToolUseID"), []).append(_text_of(message))
                return []
            case "user: meta" | "user: command":
                return [Prompt(tuple(self._parts(message, "")), "host")]
            case "user" | "user: tool_result":
                return self._user(message)
            case _:
                return [Raw(kind, record)]

    def _answer(self, key: str, told: set[str]) -> list[What]:
        if key in told:
            return []
        told.add(key)
        answer = self.joined[key]
        model: list[What] = [Configured(answer.model)] if answer.model else []
        stop = answer.stop or ("tool_use" if any(isinstance(p, ToolCall) for p in answer.parts) else "end_turn")
        return [*model, Answer(tuple(answer.parts), self._usage(answer), stop, answer.model)]

    def _aside(self, key: str, told: set[str]) -> list[What]:
        if key in told:
            return []
        told.add(key)
        return [Aside(self._usage(self.joined[key]), self.joined[key].model)]

    def _usage(self, answer: _Joined) -> Usage:
        """The usage of an answer. Without a stop reason the file holds what was known when the answer began.

        Its `output_tokens` are a placeholder then, and what the answer said is estimated where that is more.
        """
        usage = _usage(answer.usage)
        if answer.stop or usage.prompt is None:
            return usage
        said = sum(self._said(part) for part in answer.parts)
        return replace(usage, completion=max(usage.completion or 0, corrected(said, prior(answer.model))))

    def _said(self, part: Part) -> int:
        match part:
            case Text(text) | Reasoning(text):
                return self.counter.count(text)
            case ToolCall():
                return self.counter.count(part.name) + self.counter.count(part.arguments) + BOUNDS.call_framing
            case _:
                return 0

    def _user(self, message: Record) -> list[What]:
        results: list[What] = []
        spoken: list[Part] = []
        if isinstance(message.get("content"), str):
            spoken += text_parts(text_in(message, "content"))
        for block in objects_in(message, "content"):
            if block.get("type") == "tool_result":
                text, images = self._result_content(block)
                results.append(Result(text_in(block, "tool_use_id"), text, block.get("is_error") is True, images))
            else:
                spoken.append(self._part(block, ""))
        return [*results, Prompt(tuple(spoken))] if spoken or not results else results

    def _result_content(self, block: Record) -> tuple[str, tuple[Image, ...]]:
        if isinstance(block.get("content"), str):
            return text_in(block, "content"), ()
        images: list[Image] = []
        texts: list[str] = []
        for part in objects_in(block, "content"):
            image = self._image(part) if part.get("type") == "image" else None
            if image is not None:
                images.append(image)
            else:
                texts.append(text_in(part, "text") if part.get("type") == "text" else json_text(part))
        return "\n".join(texts), tuple(images)

    def _with_skill(self, said: Said) -> Said:
        """A skill's text is what its call gave back."""
        what = said.what
        if not isinstance(what, Result) or what.call not in self.skills:
            return said
        text = "\n\n".join([what.text, *self.skills.pop(what.call)])
        return Said(said.place, said.at, Result(what.call, text, what.is_error, what.images))


def kind_of(record: Record, seen: set[str]) -> str:
    """The kind of a record, a key of `KINDS` unless the format has grown."""
    message, kind = object_in(record, "message"), text_in(record, "type") or "untyped"
    if kind == "system":
        return f"system/{text_in(record, 'subtype') or 'untyped'}"
    if kind not in ("user", "assistant"):
        return kind
    if record.get("isSidechain") is True:
        return f"sidechain: {kind}"
    if kind == "assistant":
        return "assistant: synthetic" if text_in(message, "model") == "<synthetic>" else kind
    return _user_kind(record, message, seen)


def _user_kind(record: Record, message: Record, seen: set[str]) -> str:
    uuid = text_in(record, "uuid")
    if uuid and uuid in seen:
        return "repeated record"
    seen.add(uuid)
    text = _text_of(message)
    if record.get("isCompactSummary") is True:
        return "user: compact summary"
    if record.get("isMeta") is True:
        return "user: meta"
    if any(block.get("type") == "tool_result" for block in objects_in(message, "content")):
        return "user: tool_result"
    if text.startswith(_INTERRUPTED):
        return "user: interrupted"
    return "user: command" if text.startswith(_NOT_TYPED) else "user"


def _answer_id(record: Record) -> str:
    side = "side " if record.get("isSidechain") is True else ""
    message = object_in(record, "message")
    return side + (text_in(message, "id") or text_in(record, "uuid") or json_text(record))


def _text_of(message: Record) -> str:
    if isinstance(message.get("content"), str):
        return text_in(message, "content")
    return "\n".join(text_in(block, "text") for block in objects_in(message, "content") if block.get("type") == "text")


def _checkpoint(boundary: Record, summary: str) -> Compacted:
    about = object_in(boundary, "compactMetadata")
    return Compacted(summary, count_in(about, "preTokens"), text_in(about, "trigger") != "manual")


def _usage(usage: Record) -> Usage:
    """What the API reported; its `input_tokens` are those that no cache held."""
    fresh, completion = count_in(usage, "input_tokens"), count_in(usage, "output_tokens")
    read, written = count_in(usage, "cache_read_input_tokens"), count_in(usage, "cache_creation_input_tokens")
    prompt = None if fresh is None else fresh + (read or 0) + (written or 0)
    return Usage(prompt, completion, None, read, written)
