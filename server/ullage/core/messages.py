"""What was said: messages and their parts.

A message is frozen and already clean: whoever makes one at a border (a provider, the editor, an importer)
passes text through `clean_text`, so that no lone surrogate ever reaches the log or a provider.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum


class Role(StrEnum):
    """Who speaks. A tool message carries the results of exactly one assistant message's calls."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Text:
    """Plain text, code points, no lone surrogates."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """The model's own thinking. `opaque` is what its provider signed: sent back unmodified or not at all."""

    text: str
    opaque: Opaque | None = None

    @property
    def tokens(self) -> int:
        """What it is estimated at: nothing unless it is signed, since it is not sent back; a quarter of the bytes of
        its text where that is known, since a signature is not billed."""
        if self.opaque is None:
            return 0
        return -(-len(self.text.encode()) // 4) if self.text else self.opaque.tokens


@dataclass(frozen=True, slots=True)
class Opaque:
    """A provider's part that we do not parse (signed reasoning, native compaction block); `raw` is JSON text.

    It goes back as it came, to the same provider and model, or not at all.
    """

    provider: str
    model: str
    raw: str

    @property
    def tokens(self) -> int:
        """What it is estimated at: a quarter of its bytes."""
        return -(-len(self.raw.encode()) // 4)


@dataclass(frozen=True, slots=True)
class BlobRef:
    """Content stored beside the log, named by its hash. `size` in bytes."""

    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Image:
    """A picture in the blob store. `width` and `height` in pixels, checked on entry."""

    blob: BlobRef
    media_type: str
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool the model asked for.

    `call_id` is ours, derived from turn and step; `provider_id` is only an attribute, since local servers repeat
    theirs. `arguments` is the provider's raw JSON text, kept as it came, valid or not.
    """

    call_id: str
    name: str
    arguments: str
    provider_id: str | None = None


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """What a tool result proves, as fields, so that a digest needs no model.

    `op` is the kind of act; `paths` are relative to the workspace root with `/`; `detail` is one line about the
    outcome (the newest error, a test count). `exit_code` belongs to commands only.
    """

    op: Op
    paths: tuple[str, ...] = ()
    command: str | None = None
    exit_code: int | None = None
    detail: str | None = None
    hashes: tuple[str, ...] = ()
    """sha256 of the whole content of each path, in their order, as the call saw it or left it; empty: not known."""
    todos: Todos | None = None


@dataclass(frozen=True, slots=True)
class Todo:
    """One thing to do, in a line of the model's."""

    text: str
    status: TodoStatus


class TodoStatus(StrEnum):
    PENDING = "pending"
    ACTIVE = "active"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Todos:
    """The whole list, which replaces the one before."""

    items: tuple[Todo, ...] = ()


class Op(StrEnum):
    """What a tool call does to the world; everything but WRITE and RUN changes nothing."""

    READ = "read"
    SEARCH = "search"
    WRITE = "write"
    RUN = "run"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call gave back: the text the model saw, and where the full text lies if that was shortened."""

    call_id: str
    text: str
    is_error: bool = False
    facts: ToolFacts = field(default_factory=lambda: ToolFacts(Op.OTHER))
    full: BlobRef | None = None
    images: tuple[Image, ...] = ()


UNANSWERED = "The outcome of this call is unknown: the process ended before it was recorded. It was not run again."
"""The text of the host's own result for a call that nobody answered."""

Part = Text | Reasoning | Image | ToolCall | ToolResult | Opaque


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `message_id` is derived from the turn (`<turn>/u`, `<turn>/<step>/a`, `<turn>/<step>/r<n>`)."""

    message_id: str
    role: Role
    parts: tuple[Part, ...]
    turn_id: str
    origin: str | None = None
    """What wrote a user message that no person did (an instruction file, a skill, a hook); None: a person."""

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of an assistant message, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results of a tool message, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolResult))

    @property
    def has_opaque(self) -> bool:
        """Whether signed reasoning is part of it, which its provider wants back."""
        return any(isinstance(p, Opaque) or (isinstance(p, Reasoning) and p.opaque) for p in self.parts)

    def portable(self, model: str) -> tuple[Message, int]:
        """The message without what other models signed, and the tokens that this takes off; itself where nothing is.

        Reasoning that can be read stays, unsigned.
        """
        gone = [part for part in self.parts if isinstance(part, Reasoning | Opaque) and _foreign(part, model)]
        if not gone:
            return self, 0
        parts = (part if part not in gone else _unsigned(part) for part in self.parts)
        kept = tuple(part for part in parts if part is not None)
        return replace(self, parts=kept), sum(part.tokens for part in gone)

    @property
    def text(self) -> str:
        """All text parts, joined by newlines; reasoning and tool results are not text that was said."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))


def _foreign(part: Reasoning | Opaque, model: str) -> bool:
    """Whether another model signed it."""
    signed = part.opaque if isinstance(part, Reasoning) else part
    return signed is not None and signed.model != model


def _unsigned(part: Part) -> Part | None:
    return Reasoning(part.text) if isinstance(part, Reasoning) and part.text else None


def clean_text(text: str) -> str:
    """Replace lone surrogates by U+FFFD; everything else, controls included, stays as it is."""
    try:
        text.encode()
    except UnicodeEncodeError:
        # A pair of surrogates that came apart (JSON escapes) is joined first, so that emoji survive.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model call as its provider reported them; None means not reported.

    `prompt` includes cached tokens. `reasoning` is the share of `completion` that is not sent back.
    """

    prompt: int | None = None
    completion: int | None = None
    total: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None

    @property
    def floor(self) -> int | None:
        """max(total, prompt + completion) of what is valid; None where nothing is, or the prompt was billed as 0.

        A gateway that reports zeros would make a full window look empty (W-P1).
        """
        prompt, completion, total = (_count(n) for n in (self.prompt, self.completion, self.total))
        if prompt == 0 or (prompt is None and not total):
            return None
        both = prompt + completion if prompt is not None and completion is not None else None
        known = [n for n in (total, both) if n is not None]
        return max(known) if known else None


def _count(value: object) -> int | None:
    """A valid token count: a non-negative int that JavaScript could hold too; bool is no number."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53:
        return value
    return None


LIMIT_STOPS = frozenset({"max_tokens", "model_context_window_exceeded"})
"""Stop reasons of an answer that a limit cut off."""
