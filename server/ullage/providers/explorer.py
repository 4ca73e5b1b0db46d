"""The offline explorer: a rule-based provider that does modest real work, without a key and without a network.

It sees the neutral request and nothing else, as any provider does: it lists, searches and reads a workspace by calling
the tools it is offered, and ends with a report. How it decides is in `exploring.plan`, how it remembers across
compactions in `exploring.notes`.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, Callable, Iterator

from ullage.core.errors import ErrorReport
from ullage.core.messages import Part, Text, ToolCall, Usage
from ullage.core.ports import Answer, ModelCard, ProviderEvent, ProviderFailure, TextDelta, TokenCounter
from ullage.core.requests import Request
from ullage.providers.exploring.notes import write
from ullage.providers.exploring.plan import Step, decide
from ullage.providers.exploring.view import look
from ullage.providers.limits import Limits
from ullage.providers.measure import parts_tokens, request_tokens

NAME = "explorer"

_REMEMBERED_COUNTS = 512  # texts whose count is kept: more blocks than a small window holds


class Explorer:
    """Implements `Provider`. `counter` makes its usage, its window and its own limit one measure."""

    def __init__(self, counter: TokenCounter, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._count = functools.lru_cache(_REMEMBERED_COUNTS)(counter.count)

    @property
    def card(self) -> ModelCard:
        return ModelCard(NAME, self._limits.explorer_window, "setting", self._limits.explorer_answer_tokens)

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        """Answer: text in small deltas, then the answer.

        Raises:
            ProviderFailure: the request is larger than the window; `limit` is the window.
        """
        prompt = request_tokens(request, self._count)
        if prompt > self._limits.explorer_window:
            raise _overflow(prompt, self._limits.explorer_window)
        most = min(self._limits.explorer_answer_tokens, request.max_output)
        parts, stop = _worded(decide(look(request), self._limits), most, self._limits.explorer_findings, self._count)
        for piece in _pieces(parts[0].text, self._limits.explorer_delta_characters):
            yield TextDelta(piece)
            await asyncio.sleep(self._limits.explorer_pace)
        completion = parts_tokens(parts, self._count)
        yield Answer(parts, stop, Usage(prompt, completion, prompt + completion), NAME)


def _worded(
    step: Step, most: int, remembered: int, count: Callable[[str], int]
) -> tuple[tuple[Text, *tuple[Part, ...]], str]:
    """The parts of an answer of at most `most` tokens: findings are left out first, then it is cut."""
    calls = tuple(
        ToolCall(f"{step.notes.step}.{number}", ask.tool, ask.arguments) for number, ask in enumerate(step.asks)
    )
    for findings in range(remembered, -1, -1):
        text = Text(f"{step.say}\n\n{write(step.notes.at_most(findings))}")
        if parts_tokens((text, *calls), count) <= most:
            return (text, *calls), "tool_use" if calls else "end_turn"
    return (Text(text.text[:most]),), "max_tokens"


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))


def _overflow(prompt: int, window: int) -> ProviderFailure:
    report = ErrorReport(
        "context_overflow",
        f"The request has {prompt} tokens, the model takes {window}.",
        "Compact the session, or choose a larger window.",
        (("prompt", prompt), ("window", window)),
    )
    return ProviderFailure(report, overflow=True, limit=window)
