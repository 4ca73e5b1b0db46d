"""What commands may write and reach: what was asked for, and what this system can do about it."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from ullage.core.errors import Refused
from ullage.workspace import confine


class SandboxMode(StrEnum):
    AUTO = "auto"
    """Confine commands where the kernel can."""
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What was asked for. `writable` are folders beside the workspace and the temporary folder."""

    mode: SandboxMode = SandboxMode.AUTO
    network: bool = True
    writable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Confinement:
    """What a command is confined to, as its keeper is told."""

    writable: tuple[str, ...]
    network: bool


def confinement(sandbox: Sandbox, root: str, environ: Mapping[str, str]) -> Confinement | None:
    """How commands in the workspace at `root` are confined; None: not at all.

    Raises:
        Refused: `no_sandbox`: they were to have no network, and this system cannot see to it.
    """
    if sandbox.mode is SandboxMode.OFF:
        return None
    if not can_confine():
        if not sandbox.network:
            hint = "Set sandbox_network to true, or sandbox to off."
            raise Refused("Commands cannot be kept from the network on this system.", hint=hint, code="no_sandbox")
        return None
    return Confinement((root, environ.get("TMPDIR", "/tmp"), *sandbox.writable), sandbox.network)


@functools.cache
def can_confine() -> bool:
    """Whether the kernel has Landlock."""
    return confine.landlock() > 0


@functools.cache
def can_leave_network() -> bool:
    """Whether a command can be run without any network. Tried once, in a process of its own."""
    if not can_confine():
        return False
    order = [sys.executable, "-I", "-S", confine.__file__]
    return subprocess.run(order, env={}, cwd="/", stdin=subprocess.DEVNULL, capture_output=True).returncode == 0


def described(sandbox: Sandbox) -> str:
    """What holds, as sentences for a model and for a person."""
    if sandbox.mode is SandboxMode.OFF:
        return "Commands are not confined: the sandbox is off."
    if not can_confine():
        return "Commands are not confined: this system has no Landlock."
    *first, last = ("the workspace", "the temporary folder", *sandbox.writable)
    where = f"{', '.join(first)} and {last}"
    network = "" if sandbox.network else " They reach no network."
    return f"Commands can write in {where} only; elsewhere they get 'Permission denied'.{network}"
