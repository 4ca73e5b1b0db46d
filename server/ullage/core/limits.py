"""Limits and bounds of the core. Limits are settings, which `ullage.settings` composes; bounds are fixed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    steps_per_turn: int = 200
    """Provider calls that one turn may take before it ends with `too_many_steps`."""
    summary_samples: int = 3
    """Samples of a model's summary that one compaction may take before it goes on without the model (blade 1.3)."""
    summary_ms: int = 120_000
    """Milliseconds that these samples may take together, the waiting between them included."""
    summary_tokens: int = 24_000
    """Output tokens that these samples may take together."""
    summary_pause_ms: int = 375
    """Milliseconds before a second sample; twice as many before each one after it (blade 1.3)."""
    breaker_failures: int = 3
    """Model summaries that fail in a row before the model is not asked any more (blade 1.5)."""
    breaker_ms: int = 600_000
    """Milliseconds after which it is asked once more."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the fold goes by: processes with other values would make other states of one log."""

    checkpoint_messages: int = 4_096
    """Most messages a checkpoint may hold, head and tail together, checked on write and on restore (blade 1.7)."""
    checkpoint_bytes: int = 16 * 1024 * 1024
    """Largest checkpoint in bytes of unescaped UTF-8 JSON, checked on write and on restore (blade 1.7)."""
    files_remembered: int = 256
    """File facts kept in the state; the longest untouched go first."""
    commands_remembered: int = 128
    """Command facts kept in the state; the oldest go first."""
    todos_remembered: int = 64
    """Entries of the model's own list that are kept in the state; what stands behind them is dropped."""
    records_remembered: int = 32
    """Exact continuation records kept in the state; the oldest go first (blade 1.3)."""
    records_chars: int = 16_384
    """Characters of all their payloads together; the oldest go first (blade 1.3)."""
    record_chars: int = 2_048
    """Characters of the longest payload that makes a record (blade 1.3)."""
    pins_remembered: int = 64
    """Pins of a session. None goes by itself: one more is refused until a person takes one back."""
    pins_chars: int = 65_536
    """Characters of all pinned texts together; a pin that would go beyond is refused."""
    grants_remembered: int = 64
    """Grants of a session that hold; the oldest go first, and are asked for once more."""
    outputs_remembered: int = 512
    """References to full tool outputs that `read_output` accepts; the oldest go first."""
    turns_remembered: int = 256
    """Ended turn ids kept, so that a repeated prompt is the same turn; the oldest go first."""
    ratios_remembered: int = 16
    """Models whose ratio of billed to estimated tokens is kept; the longest unused go first."""
    ratio_prior: int = 2_000
    """Tokens that a family's prior ratio weighs against what a session learned."""
    ratio_slack: int = 50
    """Tokens by which a step may miss twice or half of what was expected and still teach."""
    missing_remembered: int = 512
    """Images known to be missing that are kept in the state; the oldest go first, and are found missing once more."""
    anomalies_remembered: int = 32
    """Impossible events remembered by seq; the oldest go first."""


LIMITS = Limits()
BOUNDS = Bounds()
