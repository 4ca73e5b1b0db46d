"""Limits and bounds of the context engine. Limits are settings, which `ullage.settings` composes; bounds are fixed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shares:
    """How a replacement is filled, in percent of the tokens it may take (design 6.9)."""

    task: int = 20
    """Active task; raised to its size, since a request that was cut is another request."""
    records: int = 15
    """Exact continuation records, the newest first, to the letter."""
    pins: int = 10
    """What a person pinned: all of it, the longest shortened where it takes more."""
    words: int = 25
    """What people said, newest first, verbatim."""
    digest: int = 10
    """The part of the ledger that is made from facts."""
    small_words: int = 40
    small_digest: int = 25
    """What these two are raised to in a small replacement, up to `BOUNDS.small_words` and `BOUNDS.small_digest` tokens:
    words, paths and errors do not shrink with a window."""
    files: int = 10
    """Beginnings of recently used files. Less than 10 % of the window too, as a replacement never takes all of it."""
    summary: int = 50
    """A model's ledger text, in percent of what is left; the tail has the rest."""


@dataclass(frozen=True, slots=True)
class Pruner:
    """What one way of pruning may leave out, and when that is worth rewriting what was sent (design 6.5)."""

    keep_turns: int = 10
    """Newest tool turns that always stay (blade 1.2)."""
    messages: int = 0
    """Messages that must have come since what is sent was last rewritten."""
    least: int = 20_000
    """Tokens that must be freed, or `least_percent` of the input budget where that is less: each rewrite inside the
    prefix pays for all that follows it."""
    least_percent: int = 10
    down_to_percent: int | None = 50
    """It stops where the next request takes that much of the input budget; None: when nothing more may go."""
    writes: bool = True
    """Whether what changed something may go before it was summarised."""


@dataclass(frozen=True, slots=True)
class Pruning:
    """How a profile leaves out old tool turns without a summary: `micro` with a cold cache, `snip` under pressure."""

    micro: Pruner = Pruner(down_to_percent=None, writes=False)
    """The cache is lost anyway, so every token left out is saved from the next request on."""
    snip: Pruner = Pruner()
    unknown: Pruner = Pruner(messages=30, least=0, down_to_percent=None)
    """Snip where the phase is unknown, so that there is no pressure to go by (blade 1.2)."""
    cache_ms: int | None = None
    """Milliseconds of idle time after which the cache counts as expired, whatever the provider says."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Tokens unless a name says otherwise."""

    request_bytes: int = 24 * 1024 * 1024
    """Largest request in bytes of JSON; images are left out to stay below it."""

    attempts: int = 2
    """Automatic compactions between two answers, failed ones included."""
    attempt_percent: int = 80
    """What the second of these may lead to, in percent of what the first led to."""
    gate_most: int = 50_000
    """Largest replacement, whatever the window (blade 1.4)."""
    gate_floor: int = 5_000
    """A replacement of that size passes whatever its share of the source (blade 1.4)."""
    gate_source_percent: int = 80
    """Largest replacement in percent of its source (blade 1.4)."""
    gate_window_percent: int = 50
    """Largest replacement in percent of the whole window (blade 1.4)."""
    smallest_gain: int = 1_000
    """A compaction that can't remove that much is refused before any call: it would only cost."""
    cache_lifetime_ms: int = 0
    """Milliseconds after a call for which the provider keeps its cache; 0: what the provider says, if it does."""
    resume_tokens: int = 100_000
    """A session of that many tokens is large: going on with it is worth a thought first."""
    resume_minutes: int = 60
    """Minutes without a call after which a session is idle; by then no provider's cache holds it."""
    plan_tokens: int = 300
    """Most of the last stated plan that a digest quotes."""
    error_tokens: int = 400
    """Most of the newest error that a digest quotes."""

    instructions_percent: int = 10
    """Instruction files (AGENTS.md) in the context, all together, in percent of the input budget."""
    instructions_tokens: int = 8_000
    """The same, whatever the window; the nearest stay whole, the others are cut."""

    result_chars: int = 100_000
    """Largest tool result that a model sees, in characters (blade 1.6)."""
    result_percent: int = 15
    """Largest tool result in percent of the input budget."""
    step_percent: int = 30
    """All tool results of one step in percent of the input budget."""

    summary_output: int = 8_000
    """Output cap of a summary call (blade 1.3)."""
    summary_message_chars: int = 5_000
    """Most characters of one message in a summary's flattened input, head and tail (blade 1.3)."""
    summary_least_chars: int = 625
    """What that is brought down to, by halves, when the input does not fit (blade 1.3)."""
    summary_drop_percent: int = 25
    """Oldest units that one such step leaves out, in percent of what is left of them (blade 1.3)."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What handoff records, logged counts and providers' rules rest on: other values would break these."""

    handoff_tenths: int = 7
    """The handoff line, in tenths of the input budget (blade 1.1)."""
    compaction_tenths: int = 8
    """The compaction line, in tenths of the input budget (blade 1.1)."""
    reserve_percent: int = 10
    """Output reserve without `output_cap`, in percent of the window, before it is clamped (blade 1.1)."""
    reserve_least: int = 8_192
    """Smallest such reserve in tokens, unless the window is small (blade 1.1)."""
    reserve_most: int = 32_768
    """Largest such reserve in tokens (blade 1.1)."""
    reserve_window_part: int = 4
    """Such a reserve is never more than one of so many parts of the window, so that small windows work."""
    reminder_bytes: int = 2_000
    """Largest handoff reminder, in bytes of UTF-8 (blade 1.1)."""

    message_framing: int = 4
    """Tokens that a message costs beside its text (blade 1.1)."""
    call_framing: int = 4
    """Tokens that a tool call costs beside its name, arguments and id (blade 1.1)."""
    result_framing: int = 6
    """Tokens that a tool result costs beside its text: its call's id and what wraps it (measured: 6 at OpenAI and
    Anthropic)."""
    tool_framing: int = 8
    """Tokens that a tool's declaration costs beside its JSON (blade 1.1)."""
    image_tokens: int = 1_600
    """What any image is estimated at: about what a picture costs after a provider scaled it to 1,568 pixels."""
    image_bytes: int = 5 * 1024 * 1024
    """Largest image that is sent, in bytes before base64 (Anthropic's API)."""
    image_side: int = 8_000
    """Longest side of an image that is sent, in pixels (Anthropic's API)."""

    head_part: int = 75
    """Percent of a shortened text that come from its beginning; the rest comes from its end (blade 1.4)."""
    stub: int = 200
    """Tokens that a shortened result may always take, so that it can say how to read the rest."""
    pin_least: int = 200
    """Characters that any pin keeps, however small its share."""
    smallest_unit: int = 200
    """The tail of a replacement is full when fewer tokens than that are left."""
    small_words: int = 1_600
    """Most tokens that the words' share is raised to in a small replacement: about sixty messages of a person."""
    small_digest: int = 800
    """Most tokens that the digest's share is raised to in a small replacement: about fifty paths and an error."""
    terse_target: int = 1_000
    """A replacement of at most that many tokens is terse: headings without evidence are left out, and touched files,
    the newest error and words come before any tail."""


SHARES = Shares()
PRUNING = Pruning()
TERSE_SHARES = Shares(words=100, digest=40, files=0)
"""Of a terse replacement: a tail of a few hundred tokens tells less than what was asked for."""
LIMITS = Limits()
BOUNDS = Bounds()
