"""From the Messages API's stream of events to an answer.

Invariant: what comes out is whole. Signed thinking is kept as the JSON it came as; a call's arguments are the text that
was streamed, valid or not; a stream that ends without a stop reason gives no answer; and of an answer that reached its
limit, the call that was being written is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ullage.core.messages import LIMIT_STOPS, Opaque, Part, Reasoning, Text, ToolCall, Usage, clean_text
from ullage.core.ports import Answer, ReasoningDelta, TextDelta
from ullage.providers.anthropic_errors import CUT, MODEL_REFUSED, PAUSED, failed

NAME: Final = "anthropic"


@dataclass(slots=True)
class _Block:
    """One block under way: `start` is its JSON as it began, `pieces` what followed."""

    start: dict[str, Any]
    pieces: list[str] = field(default_factory=list)
    signature: str = ""

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class Collector:
    """Takes the events of one stream. `model` is what was asked: signed parts belong to it."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._blocks: dict[int, _Block] = {}
        self._usage: dict[str, Any] = {}
        self._stop: str | None = None

    def take(self, event: Any) -> TextDelta | ReasoningDelta | None:
        """One event of the stream (the SDK's object); what of it a person may see at once."""
        match event.type:
            case "content_block_delta":
                return self._delta(self._blocks.get(event.index), event.delta)
            case "content_block_start":
                return self._start(event.index, event.content_block.model_dump(mode="json", exclude_unset=True))
            case "message_start":
                self._count(event.message.usage)
            case "message_delta":
                self._stop = event.delta.stop_reason or self._stop
                self._count(event.usage)
        return None

    def _start(self, index: int, block: dict[str, Any]) -> TextDelta | ReasoningDelta | None:
        started = self._blocks[index] = _Block(block)
        first = block.get("text") or block.get("thinking")
        if not first:
            return None
        started.pieces.append(first)
        return TextDelta(first) if block["type"] == "text" else ReasoningDelta(first)

    def _delta(self, block: _Block | None, delta: Any) -> TextDelta | ReasoningDelta | None:
        if block is None:
            return None
        match delta.type:
            case "text_delta":
                block.pieces.append(delta.text)
                return TextDelta(delta.text) if delta.text else None
            case "thinking_delta":
                block.pieces.append(delta.thinking)
                return ReasoningDelta(delta.thinking) if delta.thinking else None
            case "input_json_delta":
                block.pieces.append(delta.partial_json)
            case "signature_delta":
                block.signature += delta.signature
        return None

    def _count(self, usage: Any) -> None:
        """Later figures replace earlier ones: they are totals."""
        if usage is not None:
            self._usage |= usage.model_dump(mode="json", exclude_none=True)

    def answer(self) -> Answer:
        """What the stream came to.

        Raises:
            ProviderFailure: it was cut off, refused or paused.
        """
        if self._stop is None:
            raise failed(CUT)
        if self._stop == "refusal":
            raise failed(MODEL_REFUSED)
        if self._stop == "pause_turn":
            raise failed(PAUSED)
        parts = [part for _, block in sorted(self._blocks.items()) if (part := self._part(block)) is not None]
        if (
            self._stop in LIMIT_STOPS
            and parts
            and isinstance(parts[-1], ToolCall)
            and not _is_json(parts[-1].arguments)
        ):
            parts.pop()
        unsigned = any(isinstance(part, Reasoning) and part.opaque is None for part in parts)
        return Answer(tuple(parts), self._stop, usage_of(self._usage, reasoning_is_lost=unsigned), self._model)

    def _part(self, block: _Block) -> Part | None:
        match block.start.get("type"):
            case "text":
                return Text(clean_text(block.text)) if block.text else None
            case "tool_use":
                given = block.start.get("input") or {}
                arguments = block.text or json.dumps(given, ensure_ascii=False)
                return ToolCall("", str(block.start.get("name", "")), clean_text(arguments), block.start.get("id"))
            case "thinking":
                return self._thinking(block)
            case _:
                return Opaque(NAME, self._model, json.dumps(block.start))

    def _thinking(self, block: _Block) -> Reasoning | None:
        signature = block.signature or block.start.get("signature") or ""
        if not signature:
            return Reasoning(clean_text(block.text)) if block.text else None
        # Escaped, so that even a lone surrogate goes back as it came.
        raw = json.dumps(block.start | {"thinking": block.text, "signature": signature})
        return Reasoning(clean_text(block.text), Opaque(NAME, self._model, raw))


def usage_of(said: Mapping[str, Any], *, reasoning_is_lost: bool = False) -> Usage:
    """Usage from the API's figures. Of several inner requests the last one with a message is the context's size.

    `reasoning_is_lost`: thinking that nobody signed is not sent back, so its tokens are told apart.
    """
    inner = [each for each in said.get("iterations") or () if each.get("type") == "message"]
    last = {**said, **inner[-1]} if inner else said
    read, written = last.get("cache_read_input_tokens"), last.get("cache_creation_input_tokens")
    fresh = last.get("input_tokens")
    prompt = None if fresh is None else fresh + (read or 0) + (written or 0)
    thought = (said.get("output_tokens_details") or {}).get("thinking_tokens") if reasoning_is_lost else None
    return Usage(prompt, last.get("output_tokens"), None, read, written, thought)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
