"""What a session server is given from outside, so that tests can give it something else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import ullage.context.limits
import ullage.core.limits
import ullage.tools.limits
import ullage.workspace.limits
from ullage.context.caps import Caps
from ullage.core.inputs import Allowed, Denied
from ullage.core.messages import ToolCall
from ullage.core.money import Price
from ullage.core.ports import Intent, Provider, Summariser, TokenCounter, ToolSpec
from ullage.core.state import Config
from ullage.providers.keys import Keys
from ullage.workspace.sandbox import Sandbox

if TYPE_CHECKING:
    from ullage.storage.files import Files


@dataclass(frozen=True, slots=True)
class Question:
    """May this call run? `root` is the workspace's real path, `careful` why such a one is always asked for, or None."""

    session_id: str
    call: ToolCall
    spec: ToolSpec
    intent: Intent
    root: str
    careful: str | None


Ask = Callable[[Question], Awaitable[Allowed | Denied]]
"""Ask a person about a call."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of the packages that a session is made of."""

    core: ullage.core.limits.Limits = field(default_factory=ullage.core.limits.Limits)
    context: ullage.context.limits.Limits = field(default_factory=ullage.context.limits.Limits)
    tools: ullage.tools.limits.Limits = field(default_factory=ullage.tools.limits.Limits)
    workspace: ullage.workspace.limits.Limits = field(default_factory=ullage.workspace.limits.Limits)


async def pause(milliseconds: int) -> None:
    """Wait in real time."""
    await asyncio.sleep(milliseconds / 1000)


@dataclass(frozen=True, slots=True)
class Ports:
    """The world of a host.

    `clock` gives UTC milliseconds, `new_id` session ids for such a moment, `fence` a fresh random word. `counter` is
    asked before each use: it gives the rough counter until the rank table is loaded. So are `provider` and
    `summariser`: a key may come later.
    """

    files: Files
    home: Path
    clock: Callable[[], int]
    new_id: Callable[[int], str]
    fence: Callable[[], str]
    counter: Callable[[], TokenCounter]
    provider: Callable[[Config], Provider]
    summariser: Callable[[Config], Summariser | None]
    limits: Limits = field(default_factory=Limits)
    pause: Callable[[int], Awaitable[None]] = pause
    """Waits so many milliseconds."""
    ticks: Callable[[], float] = time.monotonic
    """Seconds that only ever grow."""
    keys: Keys = field(default_factory=Keys)
    caps: Caps = field(default_factory=Caps)
    price_tier: int | None = None
    """Tokens that a window is taken as at most, because more of it would cost more."""
    price: Callable[[str], Price | None] = field(default=lambda model: None)
    """What the tokens of the named model cost, where that is known."""
    instructions: tuple[str, ...] = ("AGENTS.md",)
    """Names of instruction files; of one folder the first that is there counts."""
    sandbox: Sandbox = field(default_factory=Sandbox)
    """What commands are confined to."""
