"""The request builder: the only way from a session's state to what a provider is asked.

Invariant: whatever the history, the request is valid. Roles alternate and the first is user; no block is empty; every
call is answered in the very next message, in call order; no result lacks its call and none stands twice. So one odd
message can never make a session unusable: it is put right again every time, from the log.

How: items are paired (`pairing`), cut into segments that begin with an assistant message, and each segment is rendered
from its own items and the results of its calls. All but the newest segment is kept in a `Memo`, so a step renders what
is new. A result that comes late for a settled segment makes the memo start again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from ullage.context.handoff import parse_record, reminder_text, shown_handoff
from ullage.context.limits import BOUNDS, LIMITS, Limits
from ullage.context.pairing import Pairing
from ullage.context.pruning import MARKER
from ullage.context.replacement import head_blocks
from ullage.core.context import Occupancy
from ullage.core.messages import (
    UNANSWERED,
    BlobRef,
    Image,
    Message,
    Opaque,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
    clean_text,
)
from ullage.core.ports import ModelCard
from ullage.core.requests import Block, Request, RequestMessage, RequestTool
from ullage.core.state import HandoffItem, InstructionsItem, Item, MessageItem, OmissionItem, ReplacementItem, State

NO_OUTPUT = "(no output)"
NO_BEGINNING = "(The conversation begins here.)"

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Built:
    """A request, its estimated size in bytes of JSON, and the images that were left out to keep it small."""

    request: Request
    size: int
    left_out: tuple[BlobRef, ...]
    too_large: bool
    """Even without images it is above the limit: compaction is due (design 3, rule 3)."""


@dataclass(slots=True)
class Memo:
    """What was rendered before. One a session; it changes nothing about what is built, only how long that takes."""

    key: tuple[object, ...] = ()
    pairing: Pairing = field(default_factory=Pairing)
    newest: Item | None = None
    """The last item that was paired: as long as it stands at its place, all before it is as it was."""
    settled: int = 0
    """Items inside `messages`."""
    messages: list[RequestMessage] = field(default_factory=list)
    size: int = 0
    images: list[Image] = field(default_factory=list)
    """Of every item, whether it can be sent or not."""

    def prepare(self, items: Sequence[Item], key: tuple[object, ...]) -> None:
        """Take in new items; start again where older ones are not what they were."""
        seen = self.pairing.seen
        if self.key != key or seen > len(items) or (seen and items[seen - 1] is not self.newest):
            self.key, self.pairing, self.images, seen = key, Pairing(), [], 0
            self._unsettle()
        self.images += (image for at in range(seen, len(items)) for image in _item_images(items[at]))
        if items and self.pairing.take(items) < self.settled:
            self._unsettle()
        self.newest = items[-1] if items else None

    def _unsettle(self) -> None:
        self.settled, self.messages, self.size = 0, [], 0


def build(
    state: State,
    system: str,
    tools: Sequence[RequestTool],
    card: ModelCard,
    max_output: int,
    occupancy: Occupancy,
    memo: Memo | None = None,
    limits: Limits = LIMITS,
) -> Built:
    """The next request of a session. `occupancy` is the one this step was decided with."""
    shown = shown_handoff(state)
    messages, size = render(state.items, card.name, memo, shown.seq if shown else None)
    messages, size = _without_missing(messages, size, frozenset(state.facts.missing))
    fixed = _size([system, *((tool.name, tool.description, tool.schema) for tool in tools)])
    messages, size, left_out = _within(messages, size + fixed, limits.request_bytes)
    room = max_output if card.window is None else max(1, min(max_output, card.window - occupancy.used))
    request = Request(card.name, system, tuple(tools), tuple(messages), room, occupancy.used)
    return Built(request, size, left_out, size > limits.request_bytes)


def render(
    items: Sequence[Item], model: str, memo: Memo | None = None, handoff: int | None = None
) -> tuple[list[RequestMessage], int]:
    """Messages of a request, and their size in bytes. `handoff` is the seq of the record that is shown, if any."""
    memo = memo or Memo()
    memo.prepare(items, (model, handoff))
    segment: list[int] = []
    for index in range(memo.settled, len(items)):
        if segment and _is_answer(items[index]):
            memo.size += _render_segment(memo.messages, items, segment, memo)
            memo.settled = index
            segment = []
        segment.append(index)
    messages = list(memo.messages)
    size = memo.size + _render_segment(messages, items, segment, memo)
    if not messages:
        size += _say(messages, Role.USER, [Text(NO_BEGINNING)])
    return messages, size


# --- segments ---


def _is_answer(item: Item) -> bool:
    return isinstance(item, MessageItem) and item.message.role is Role.ASSISTANT


def _render_segment(out: list[RequestMessage], items: Sequence[Item], segment: Sequence[int], memo: Memo) -> int:
    """Append a segment's messages to `out`; the bytes they add. Answers first, then results, then what was said."""
    model, handoff = memo.key
    size = 0
    for index in segment:
        item = items[index]
        if isinstance(item, MessageItem) and item.message.role is Role.ASSISTANT:
            size += _say(out, Role.ASSISTANT, _answer_blocks(item.message, index, str(model), memo.pairing))
            size += _say(out, Role.USER, _result_blocks(item.message, index, memo.pairing))
        else:
            size += _say(out, Role.USER, _user_blocks(item, index, handoff, memo.pairing))
    return size


def _say(out: list[RequestMessage], role: Role, blocks: list[Block]) -> int:
    """Append blocks to the last message of that role, or as a new message; the bytes they add."""
    if not blocks:
        return 0
    blocks = [_clean(block) for block in blocks]
    size = sum(_block_size(block) for block in blocks)
    if out and out[-1].role is role:
        out[-1] = RequestMessage(role, (*out[-1].blocks, *blocks))
        return size
    if not out and role is Role.ASSISTANT:
        size += _say(out, Role.USER, [Text(NO_BEGINNING)])
    out.append(RequestMessage(role, tuple(blocks)))
    return size + _MESSAGE_BYTES


def _answer_blocks(message: Message, index: int, model: str, pairing: Pairing) -> list[Block]:
    blocks: list[Block] = []
    names = iter(pairing.names_of(index))
    for part in message.parts:
        match part:
            case ToolCall():
                blocks.append(replace(part, call_id=next(names), name=_tool_name(part.name)))
            case Text(text) if text.strip():
                blocks.append(part)
            case Reasoning(_, opaque) if opaque and opaque.model == model:
                blocks.append(part)
            case Opaque() if part.model == model:
                blocks.append(part)
            case Image():
                blocks.append(Text(_placeholder(part, "an answer can't hold one")))
            case _:
                pass
    # Reasoning alone is no answer: providers refuse a message of nothing else.
    return blocks if any(not isinstance(block, Reasoning | Opaque) for block in blocks) else []


def _result_blocks(message: Message, index: int, pairing: Pairing) -> list[Block]:
    """The results of an answer's calls in call order; a call without one is closed."""
    blocks: list[Block] = []
    for name, result in zip(pairing.names_of(index), pairing.results_of(index), strict=True):
        if result is None:
            blocks.append(ToolResult(name, UNANSWERED, is_error=True))
        else:
            images = tuple(image for image in result.images if _image_problem(image) is None)
            notes = [_sendable(image).text for image in result.images if image not in images]  # type: ignore[union-attr]
            text = "\n".join([result.text, *notes]) if result.text.strip() or notes else NO_OUTPUT
            blocks.append(replace(result, call_id=name, text=text, images=images))
    return blocks


def _user_blocks(item: Item, index: int, handoff: object, pairing: Pairing) -> list[Block]:
    match item:
        case ReplacementItem():
            return list(head_blocks(item.replacement))
        case HandoffItem():
            record = parse_record(item.record) if item.seq == handoff else None
            return [Text(reminder_text(record))] if record else []
        case OmissionItem():
            return [Text(MARKER)]
        case InstructionsItem():
            return [Text("\n\n".join(part.text for part in item.message.parts if isinstance(part, Text)))]
        case MessageItem():
            return [block for part in item.message.parts for block in _user_block(part, index, pairing)]
        case _:
            assert_never(item)


def _user_block(part: Part, index: int, pairing: Pairing) -> list[Block]:
    match part:
        case Text(text):
            return [part] if text.strip() else []
        case Image():
            return [_sendable(part)]
        case ToolResult():
            # Paired results stand after their call already, and a second one is dropped.
            return [Text(orphan_note(part))] if pairing.is_orphan(index, part) else []
        case _:
            return []


def _clean(block: Block) -> Block:
    """No lone surrogate leaves here, whoever forgot to clean at the border; clean blocks stay the same objects."""
    match block:
        case Text(text) if clean_text(text) is not text:
            return Text(clean_text(text))
        case ToolCall() if clean_text(block.arguments) is not block.arguments:
            return replace(block, arguments=clean_text(block.arguments))
        case ToolResult() if clean_text(block.text) is not block.text:
            return replace(block, text=clean_text(block.text))
        case _:
            return block


def orphan_note(result: ToolResult) -> str:
    """What is left of a result whose call is no longer in view: a plain note that names the call."""
    output = result.text.strip() or NO_OUTPUT
    return f"A tool call that is no longer in view ({result.call_id}) gave this result:\n{output}"


def _tool_name(name: str) -> str:
    """A name that providers accept; models make up others now and then."""
    if _NAME.fullmatch(name):
        return name
    safe = "".join(char if char.isascii() and (char.isalnum() or char in "_-") else "_" for char in name[:64])
    return safe or "unnamed"


# --- images and bytes ---


def _image_problem(image: Image) -> str | None:
    if image.blob.size > BOUNDS.image_bytes:
        return f"it has {image.blob.size:,} bytes, and at most {BOUNDS.image_bytes:,} can be sent"
    if max(image.width, image.height) > BOUNDS.image_side:
        return f"it has {image.width} x {image.height} pixels, and at most {BOUNDS.image_side:,} a side can be sent"
    return None


def _sendable(image: Image) -> Image | Text:
    problem = _image_problem(image)
    return image if problem is None else Text(_placeholder(image, problem))


def _placeholder(image: Image, why: str) -> str:
    return f"[{image.media_type} image left out: {why}]"


def _within(
    messages: list[RequestMessage], size: int, most: int
) -> tuple[list[RequestMessage], int, tuple[BlobRef, ...]]:
    """Leave out images, the oldest first, until the request is small enough or none is left."""
    left_out: list[BlobRef] = []
    for index, message in enumerate(messages):
        if size <= most:
            break
        blocks: list[Block] = []
        for block in message.blocks:
            gone = _images(block) if size > most else ()
            slim = _without_images(block, gone, "the request would be too large")
            size += _block_size(slim) - _block_size(block)
            left_out += (image.blob for image in gone)
            blocks.append(slim)
        messages[index] = RequestMessage(message.role, tuple(blocks))
    return messages, size, tuple(left_out)


def _without_missing(
    messages: list[RequestMessage], size: int, missing: frozenset[str]
) -> tuple[list[RequestMessage], int]:
    """Placeholders for images whose bytes are gone; what else a message holds stays the same object."""
    for index, message in enumerate(messages if missing else ()):
        gone = [tuple(i for i in _images(block) if i.blob.sha256 in missing) for block in message.blocks]
        if not any(gone):
            continue
        why = "it is not stored any more"
        slim = [_without_images(block, each, why) for block, each in zip(message.blocks, gone, strict=True)]
        size += sum(map(_block_size, slim)) - sum(map(_block_size, message.blocks))
        messages[index] = RequestMessage(message.role, tuple(slim))
    return messages, size


def images_of(state: State, card: ModelCard, memo: Memo) -> tuple[BlobRef, ...]:
    """Images that the next request may hold, without those that are known to be gone."""
    shown = shown_handoff(state)
    memo.prepare(state.items, (card.name, shown.seq if shown else None))
    return tuple(image.blob for image in memo.images if image.blob.sha256 not in state.facts.missing)


def _item_images(item: Item) -> Iterator[Image]:
    if isinstance(item, MessageItem):
        for part in item.message.parts:
            if isinstance(part, Image | ToolResult):
                yield from _images(part)


def _images(block: Block) -> tuple[Image, ...]:
    match block:
        case Image():
            return (block,)
        case ToolResult():
            return block.images
        case _:
            return ()


def _without_images(block: Block, gone: Sequence[Image], why: str) -> Block:
    if not gone:
        return block
    notes = [_placeholder(image, why) for image in gone]
    if isinstance(block, ToolResult):
        left = tuple(image for image in block.images if image not in gone)
        return replace(block, text="\n".join([block.text, *notes]), images=left)
    return Text(notes[0])


_MESSAGE_BYTES = 40
_BLOCK_BYTES = 100
"""JSON around a block: type, ids, names of fields. Rounded up."""


def _block_size(block: Block) -> int:
    match block:
        case Text(text):
            return _BLOCK_BYTES + _size(text)
        case Image():
            return _image_size(block)
        case ToolCall():
            return _BLOCK_BYTES + _size([block.call_id, block.name, block.arguments])
        case ToolResult():
            return _BLOCK_BYTES + _size([block.call_id, block.text]) + sum(_image_size(i) for i in block.images)
        case Reasoning(text, opaque):
            return _BLOCK_BYTES + (_size(opaque.raw) if opaque else _size(text))
        case Opaque():
            return _BLOCK_BYTES + _size(block.raw)
        case _:
            assert_never(block)


def _image_size(image: Image) -> int:
    return _BLOCK_BYTES + (image.blob.size + 2) // 3 * 4


def _size(value: object) -> int:
    """Bytes of a value as compact JSON."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))
