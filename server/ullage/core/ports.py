"""What the core needs from the world, as protocols. The fakes are in `ullage.testing`; each port has one contract
suite in `tests/contracts` that runs against the fake and the real thing."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ullage.core.errors import ErrorReport
from ullage.core.matching import Hit, Query
from ullage.core.messages import BlobRef, Image, Op, Part, ToolFacts, Usage
from ullage.core.requests import Request

# --- tokens ---


class TokenCounter(Protocol):
    """Counts tokens of text. `encoding` names what the counts were made with and is stored beside them."""

    @property
    def encoding(self) -> str: ...

    def count(self, text: str) -> int:
        """Tokens of `text`; never raises, whatever the text."""
        ...


# --- provider ---


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of the model's thinking."""

    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer: ends a stream. `calls` are (name, raw JSON arguments, provider's id)."""

    parts: tuple[Part, ...]
    stop: str
    usage: Usage
    model: str


@dataclass(frozen=True, slots=True)
class Retrying:
    """The call failed before any output and is made again after `wait` seconds: try `attempt` of `most`. No output."""

    attempt: int
    most: int
    wait: float
    error: ErrorReport


ProviderEvent = TextDelta | ReasoningDelta | Retrying | Answer


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What is known of a model. `window` in tokens; `window_source` says who said so (provider, setting, table)."""

    name: str
    window: int | None
    window_source: str
    output_cap: int | None = None
    cache_ms: int | None = None
    """Milliseconds after a call for which the provider says that it keeps its cache; None: it does not say."""


class ProviderFailure(Exception):
    """A model call failed. `overflow` means the request did not fit; `limit` is the window the provider named.

    `transient` means that the same request may succeed later (429, 408, 409, 5xx, a lost connection, overload).
    A failure after the first event of a stream is a failure after the provider boundary: nothing is replayed.
    """

    def __init__(
        self, report: ErrorReport, *, overflow: bool = False, limit: int | None = None, transient: bool = False
    ) -> None:
        super().__init__(report.message)
        self.report = report
        self.overflow = overflow
        self.limit = limit
        self.transient = transient


class Provider(Protocol):
    """What answers. Cancelling the task that iterates closes the call at once."""

    @property
    def card(self) -> ModelCard: ...

    def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        """Answer a request: deltas, then exactly one `Answer`; before the first delta it may say that it tries again.

        Raises:
            ProviderFailure: the call failed; before any event it may be recovered from.
        """
        ...


class Summariser(Protocol):
    """Writes a ledger for a compaction. Without one the deterministic digest is the strategy itself."""

    @property
    def card(self) -> ModelCard:
        """The model that is asked; it may be another than the one that answers."""
        ...

    async def summarise(self, request: Request) -> Answer:
        """One sample.

        Raises:
            ProviderFailure: this sample failed.
        """
        ...


# --- tools ---


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model is told of it. `schema` is JSON Schema, sorted and frozen for the session."""

    name: str
    description: str
    schema: Mapping[str, Any]
    changes: bool = False
    """True when a call may change something: its intent is synced to disk before it runs."""


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What a tool gave back, before any budget: `text` is whole, or says how `full` is paged through."""

    text: str
    is_error: bool = False
    facts: ToolFacts | None = None
    images: tuple[Image, ...] = field(default=())
    full: BlobRef | None = None
    """All of it, stored already, where `text` is not whole."""


@dataclass(frozen=True, slots=True)
class Intent:
    """What a call would change, for whoever decides on it.

    `shown` is the exact diff or command, what is invisible escaped. `paths` are relative to the workspace root; `rule`
    is what a grant for the session would cover. `sha256` names all of what would be done: the bytes before and after.
    """

    op: Op
    shown: str
    sha256: str
    paths: tuple[str, ...] = ()
    rule: str = ""


Tell = Callable[[int, str], None]
"""Hears, on the loop, what a running call prints: where a piece begins, in code points, and the piece."""


def to_nobody(start: int, text: str) -> None:
    """A `Tell` for who does not listen."""


class Tools(Protocol):
    """The agent's hands in one workspace."""

    def specs(self) -> Sequence[ToolSpec]:
        """Every tool, sorted by name."""
        ...

    async def intend(self, name: str, arguments: str) -> Intent | ToolOutcome:
        """What a call that may change something would do, or the error it would only give. Changes nothing."""
        ...

    async def run(self, name: str, arguments: str, tell: Tell = to_nobody, approved: str | None = None) -> ToolOutcome:
        """Run one call. Bad arguments, unknown tools and failures are outcomes with `is_error`, never exceptions.

        Raises:
            NotAsApproved: the call would not do what `approved` names, the `sha256` of an intent; it did nothing.
        """
        ...

    async def close(self) -> None:
        """End what earlier calls left running. No call runs any more."""
        ...


# --- blobs ---


class BlobWriter(Protocol):
    """One blob that is written in pieces, by one thread at a time. Every call raises StorageFailed and nothing else."""

    def write(self, piece: bytes) -> None: ...

    def commit(self) -> BlobRef:
        """It is whole: durable under its name when this returns."""
        ...

    def abandon(self) -> None:
        """Nothing is left of it. Never raises."""
        ...


class Blobs(Protocol):
    """Content-addressed store of one workspace; fsynced before `put` returns."""

    def put(self, content: bytes) -> BlobRef: ...

    def writer(self) -> BlobWriter:
        """Begin a blob whose content is not known yet."""
        ...

    def get(self, ref: BlobRef) -> bytes | None:
        """The content, or None when it is missing or damaged."""
        ...

    def has(self, ref: BlobRef) -> bool:
        """Whether `get` would give the content. Damage that comes about after the first time may go unseen."""
        ...


# --- recall ---


@dataclass(frozen=True, slots=True)
class Recalled:
    """What a search for words found, the best first. `complete` is False when time was up before all was looked at."""

    query: Query
    hits: tuple[Hit, ...]
    complete: bool = True


class Recall(Protocol):
    """Searches everything that was said in one session, also what the model does not see any more."""

    def __call__(self, text: str, limit: int, stop: Callable[[], bool]) -> Recalled:
        """Find passages that hold words of `text`, whatever it is, at most `limit`. May run in a thread."""
        ...
