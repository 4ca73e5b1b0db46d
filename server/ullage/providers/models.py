"""What is known of Anthropic's models where their provider cannot be asked: a fallback, and labelled as one.

From Anthropic's model overview, read in November 2026. The models endpoint is the first source; an endpoint that has
none, or a time without a network, leaves this.
"""

from __future__ import annotations

from typing import Final

from ullage.core.ports import ModelCard

TABLE: Final[tuple[tuple[str, int, int], ...]] = (
    ("claude-3-5-", 200_000, 8_192),
    ("claude-3-7-", 200_000, 64_000),
    ("claude-3-", 200_000, 4_096),
    ("claude-haiku-4-5", 200_000, 64_000),
    ("claude-opus-4-6", 1_000_000, 128_000),
    ("claude-opus-4-7", 1_000_000, 128_000),
    ("claude-opus-4-8", 1_000_000, 128_000),
    ("claude-opus-4-", 200_000, 32_000),
    ("claude-sonnet-4-6", 1_000_000, 64_000),
    ("claude-sonnet-4-", 200_000, 64_000),
    ("claude-sonnet-5", 1_000_000, 64_000),
    ("claude-opus-5", 1_000_000, 128_000),
    ("claude-", 200_000, 32_000),
)
"""Beginning of a name, window, most output tokens; the first that fits. The last row is the cautious guess."""


def from_table(name: str) -> tuple[ModelCard, int | None]:
    """The card of a model and its most output tokens, as far as the table goes.

    The card holds no output cap of its own: a model's most is no reserve that somebody wants.
    """
    for beginning, window, output in TABLE:
        if name.startswith(beginning):
            return ModelCard(name, window, "table"), output
    return ModelCard(name, None, "unknown"), None
