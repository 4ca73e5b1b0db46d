"""The world of a walk: what an engine needs to know of a provider and of tools, and nothing that could call or run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from ullage.core.ports import Intent, ModelCard, ProviderEvent, Tell, TokenCounter, ToolOutcome, ToolSpec, to_nobody
from ullage.core.requests import Request
from ullage.sessions.ports import Ports
from ullage.storage.files import DiskFiles
from ullage.tools.table import tool_specs


class Recorded:
    """Stands for the provider and the tools of the recording: what is known of them, and nothing that could run."""

    def __init__(self, card: ModelCard) -> None:
        self.card = card
        self._specs = tool_specs()

    def specs(self) -> Sequence[ToolSpec]:
        return self._specs

    async def intend(self, name: str, arguments: str) -> Intent | ToolOutcome:
        raise NotImplementedError("a walk runs nothing")

    async def run(self, name: str, arguments: str, tell: Tell = to_nobody, approved: str | None = None) -> ToolOutcome:
        raise NotImplementedError("a walk runs nothing")

    async def close(self) -> None:
        """Nothing ran."""

    def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        raise NotImplementedError("a walk calls nothing")


def ports(recorded: Recorded, counter: TokenCounter) -> Ports:
    """Ports of a walk: no clock, no chance, no disk that anything is written to."""
    return Ports(
        files=DiskFiles(),
        home=Path(),
        clock=lambda: 0,
        new_id=lambda at: "walk",
        fence=lambda: "fence",
        counter=lambda: counter,
        provider=lambda config: recorded,
        summariser=lambda config: None,
    )
