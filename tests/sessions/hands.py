"""Tools whose moments a test chooses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from ullage.core.messages import Op, ToolFacts
from ullage.core.ports import Intent, Tell, ToolOutcome, ToolSpec, to_nobody


class FakeTools:
    """Named tools that run until they are told to finish. `changing` ones need a person's word."""

    def __init__(self, *names: str, changing: Sequence[str] = (), free: bool = False) -> None:
        self._specs = tuple(ToolSpec(name, f"The tool {name}.", {}, name in changing) for name in sorted(names))
        self._gates = {name: asyncio.Event() for name in names}
        self._last: dict[str, Callable[[], None]] = {}
        self.started: list[str] = []
        self.closed = False
        self.on_start: Callable[[str], None] = lambda name: None
        if free:
            for name in names:
                self.finish(name)

    def specs(self) -> Sequence[ToolSpec]:
        return self._specs

    def finish(self, name: str) -> None:
        self._gates[name].set()

    def when_done(self, name: str, act: Callable[[], None]) -> None:
        """Do something in the moment before the tool gives back its outcome."""
        self._last[name] = act

    async def intend(self, name: str, arguments: str) -> Intent | ToolOutcome:
        return Intent(Op.WRITE, f"{name} changes something", f"{name} {arguments}", (f"{name}.txt",))

    async def run(self, name: str, arguments: str, tell: Tell = to_nobody, approved: str | None = None) -> ToolOutcome:
        self.started.append(name)
        self.on_start(name)
        await self._gates[name].wait()
        self._last.get(name, lambda: None)()
        if arguments == '"raise"':
            raise RuntimeError("a bug in a tool")
        return ToolOutcome(f"{name} is done", facts=ToolFacts(Op.WRITE, (f"{name}.txt",)))

    async def close(self) -> None:
        self.closed = True
