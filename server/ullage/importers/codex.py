"""codex's rollout files.

The items of one answer (reasoning, messages, calls) stand before the `token_count` that reports its usage, its calls'
outputs in between. A `token_count` whose total did not change reports nothing new.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from ullage.core.messages import Image, Message, Opaque, Part, Reasoning, Role, Text, ToolCall, Usage
from ullage.core.ports import TokenCounter
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
)

FORMAT: Final = "codex"

_RAW: Final = "kept whole"
_TWICE: Final = "kept whole: it repeats what a response_item says"
KINDS: Final = {
    "session_meta": "the session's id and folder; kept whole",
    "turn_context": "the session is configured with another model where it names one; kept whole",
    "response_item/message/user": "a prompt, or steering; without its `user_message` event no person typed it",
    "response_item/message/developer": "a message that no person typed",
    "response_item/message/system": "a message that no person typed",
    "response_item/message/assistant": "text of an answer",
    "response_item/reasoning": "opaque reasoning of an answer",
    "response_item/function_call": "a call of an answer",
    "response_item/custom_tool_call": "a call of an answer",
    "response_item/local_shell_call": "a call of an answer",
    "response_item/tool_search_call": "a call of an answer",
    "response_item/web_search_call": "an opaque part of an answer: the provider ran it",
    "response_item/function_call_output": "a result of its call",
    "response_item/custom_tool_call_output": "a result of its call",
    "response_item/tool_search_output": "a result of its call",
    "compacted": "a checkpoint: its message as the ledger, its replacement history as the tail",
    "event_msg/token_count": "the usage of the answer before it, and the window",
    "event_msg/token_count: repeated": "kept whole: a rate limit update",
    "event_msg/turn_aborted": "the turn ends as cancelled",
    "event_msg/user_message": _TWICE,
    "event_msg/agent_message": _TWICE,
    "event_msg/agent_reasoning": _TWICE,
    "event_msg/task_started": _RAW,
    "event_msg/task_complete": _RAW,
    "event_msg/context_compacted": _RAW,
    "event_msg/mcp_tool_call_end": _TWICE,
    "event_msg/patch_apply_end": _TWICE,
    "event_msg/exec_command_end": _TWICE,
}
"""Record kind to what becomes of it. A kind that is not here is kept whole as well, under its own name."""

_CALLS: Final = ("function_call", "custom_tool_call", "local_shell_call", "tool_search_call")


def read(content: bytes, counter: TokenCounter) -> Imported:
    """Import a session. Never raises: what can't be read is named in `damage`."""
    records, damage = parse(content)
    return tell(_Reader(records, damage).reading(), counter)


class _Reader:
    def __init__(self, records: list[tuple[int, Record]], damage: list[Damage]) -> None:
        self.records, self.damage = records, damage
        self.kinds: Counter[str] = Counter()
        self.images: dict[str, bytes] = {}
        self.said: list[Said] = []
        self.model = ""
        self.total: Record | None = None
        self.answer: list[Part] = []
        self.begun: tuple[int, int | None] = (0, None)
        """Place and moment of the answer under way."""
        self.behind: list[Said] = []
        """What came behind the answer's first item and belongs after it."""
        payloads = [object_in(record, "payload") for _, record in records]
        self.typed = {text_in(p, "message") for p in payloads if p.get("type") == "user_message"}

    def reading(self) -> Reading:
        for place, record in self.records:
            payload, at = object_in(record, "payload"), moment_in(record)
            kind = kind_of(record)
            if kind == "event_msg/token_count" and not self._is_news(payload):
                kind += ": repeated"
            self.kinds[kind] += 1
            self._take(kind, record, payload, place, at)
        self._close(Usage())
        meta = next((object_in(r, "payload") for _, r in self.records if r.get("type") == "session_meta"), {})
        session_id = text_in(meta, "id") or "imported"
        return Reading(FORMAT, session_id, text_in(meta, "cwd"), self.said, self.kinds, self.damage, self.images)

    def _is_news(self, payload: Record) -> bool:
        total = object_in(object_in(payload, "info"), "total_token_usage")
        return bool(total) and total != self.total

    def _take(self, kind: str, record: Record, payload: Record, place: int, at: int | None) -> None:
        part = self._answer_part(kind, payload)
        if part is not None:
            if not self.answer:
                self.begun = (place, at)
            self.answer.append(part)
            return
        if kind == "event_msg/token_count":
            info = object_in(payload, "info")
            self.total = object_in(info, "total_token_usage")
            had = bool(self.answer)
            self._close(_usage(object_in(info, "last_token_usage")))
            window = count_in(info, "model_context_window")
            self._say(place, at, [Configured(window=window)] if had and window else [])
            if not had:
                self._say(place, at, [Raw(kind, record)])
            return
        whats = self._whats(kind, record, payload)
        if any(isinstance(what, Prompt | Compacted | Interrupted) for what in whats):
            self._close(Usage())
        self._say(place, at, whats)

    def _say(self, place: int, at: int | None, whats: list[What]) -> None:
        to = self.behind if self.answer else self.said
        to += [Said(place, at, what) for what in whats]

    def _close(self, usage: Usage) -> None:
        """The answer under way is whole."""
        if self.answer:
            calls = any(isinstance(part, ToolCall) for part in self.answer)
            answer = Answer(tuple(self.answer), usage, "tool_use" if calls else "end_turn", self.model)
            self.said.append(Said(*self.begun, answer))
        self.said += self.behind
        self.answer, self.behind = [], []

    # --- items ---

    def _answer_part(self, kind: str, payload: Record) -> Part | None:
        item = kind.removeprefix("response_item/")
        match item:
            case "message/assistant":
                return Text(self._text(payload))
            case "reasoning":
                return Reasoning(_summary(payload), Opaque("openai", self.model, json_text(payload)))
            case "web_search_call":
                return Opaque("openai", self.model, json_text(payload))
            case _ if item in _CALLS:
                name = text_in(payload, "name") or item.removesuffix("_call")
                return ToolCall("", name, _arguments(payload), text_in(payload, "call_id") or text_in(payload, "id"))
            case _:
                return None

    def _whats(self, kind: str, record: Record, payload: Record) -> list[What]:
        match kind:
            case "response_item/message/user":
                parts = self._parts(payload)
                typed = not self.typed or self._text(payload) in self.typed
                return [Prompt(parts, None if typed else "host")]
            case "response_item/message/developer" | "response_item/message/system":
                return [Prompt(self._parts(payload), "host")]
            case (
                "response_item/function_call_output"
                | "response_item/custom_tool_call_output"
                | "response_item/tool_search_output"
            ):
                text, is_error = _output(payload)
                return [Result(text_in(payload, "call_id"), text, is_error)]
            case "compacted":
                history = [
                    self._kept(item, index) for index, item in enumerate(objects_in(payload, "replacement_history"))
                ]
                return [Compacted(text_in(payload, "message"), history=tuple(history))]
            case "event_msg/turn_aborted":
                return [Interrupted()]
            case "turn_context":
                self.model = text_in(payload, "model") or self.model
                return [Configured(self.model or None), Raw(kind, record)]
            case _:
                return [Raw(kind, record)]

    def _kept(self, item: Record, index: int) -> Message:
        """A message of a replacement history; anything else is opaque."""
        message_id = f"c{self.kinds['compacted']}/k{index}"
        role = item.get("role")
        if item.get("type") != "message" or role == "assistant":
            parts: tuple[Part, ...] = (Opaque("openai", self.model, json_text(item)),)
            if role == "assistant":
                parts = self._parts(item)
            return Message(message_id, Role.ASSISTANT, parts, "")
        typed = role == "user" and (not self.typed or self._text(item) in self.typed)
        return Message(message_id, Role.USER, self._parts(item), "", None if typed else "host")

    def _parts(self, payload: Record) -> tuple[Part, ...]:
        return tuple(self._part(block) for block in objects_in(payload, "content"))

    def _part(self, block: Record) -> Part:
        if block.get("type") in ("input_text", "output_text", "text"):
            return Text(text_in(block, "text"))
        image = self._image(block)
        return image if image is not None else Opaque("openai", self.model, json_text(block))

    def _image(self, block: Record) -> Image | None:
        head, _, data = text_in(block, "image_url").partition(";base64,")
        found = picture(data, head.removeprefix("data:")) if data else None
        if found is None:
            return None
        self.images[found[0].blob.sha256] = found[1]
        return found[0]

    def _text(self, payload: Record) -> str:
        return "\n".join(part.text for part in self._parts(payload) if isinstance(part, Text))


def kind_of(record: Record) -> str:
    """The kind of a record, a key of `KINDS` unless the format has grown."""
    kind, payload = text_in(record, "type") or "untyped", object_in(record, "payload")
    if kind not in ("response_item", "event_msg"):
        return kind
    item = text_in(payload, "type") or "untyped"
    role = f"/{text_in(payload, 'role') or 'untyped'}" if item == "message" else ""
    return f"{kind}/{item}{role}"


def _summary(payload: Record) -> str:
    return "\n".join(text_in(block, "text") for block in objects_in(payload, "summary"))


def _arguments(payload: Record) -> str:
    for name in ("arguments", "input", "action"):
        value = payload.get(name)
        if isinstance(value, str):
            return text_in(payload, name)
        if value is not None:
            return json_text(value)
    return "{}"


def _output(payload: Record) -> tuple[str, bool]:
    """A result's text, and whether it says of itself that it failed."""
    output = payload.get("output", payload.get("tools"))
    if isinstance(output, str):
        return text_in(payload, "output"), False
    if isinstance(output, dict):
        content = output.get("content")
        text = text_in(output, "content") if isinstance(content, str) else json_text(output)
        return text, output.get("success") is False
    return "" if output is None else json_text(output), False


def _usage(usage: Record) -> Usage:
    return Usage(
        count_in(usage, "input_tokens"),
        count_in(usage, "output_tokens"),
        count_in(usage, "total_tokens"),
        count_in(usage, "cached_input_tokens"),
        None,
        count_in(usage, "reasoning_output_tokens"),
    )
