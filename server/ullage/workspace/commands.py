"""Commands of one session, run in its workspace.

Invariant: a command runs in the root of its session's workspace and nowhere else, in a process group of its own, with
the environment of `environment.py` and nothing on standard input; and nothing of it is left once it was ended, its
session was closed, or the server is gone (`keeper.py` sees to that from outside).

Each command has a keeper process and a thread that reads its pipes. The thread waits for no pipe's end: what the
command had written when it ended is read, and the pipes are closed when its last process is gone, whoever still
holds them.
"""

from __future__ import annotations

import asyncio
import marshal
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count

from ullage.core.errors import BadInput, Refused
from ullage.core.ports import BlobWriter, Tell
from ullage.workspace.entries import RootIdentity
from ullage.workspace.environment import SHELLS, clean_environment
from ullage.workspace.limits import Limits
from ullage.workspace.output import Output
from ullage.workspace.reading import Reading
from ullage.workspace.sandbox import Confinement, Sandbox, confinement

_LATE_S = 2.0
"""How long after its grace a keeper may take to end before it is ended itself."""
_REMEMBERED = 32
"""Most background commands whose output can still be asked for."""


@dataclass(frozen=True, slots=True)
class Left:
    """A process that a command left running."""

    pid: int
    line: str


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: with an exit code, or by a signal. Neither is known where its keeper was killed."""

    exit_code: int | None = None
    signal: str | None = None
    left: tuple[Left, ...] = ()


class Run:
    """One command. Made by `Commands.start`; belongs to the loop that started it."""

    def __init__(self, run_id: str, command: str, output: Output, tell: Tell, limits: Limits) -> None:
        self.run_id, self.command, self.output = run_id, command, output
        self.ended: Future[Ended] = Future()
        """The command itself has ended, and what it had printed is in `output`. Raises Refused: it never began."""
        self.gone: Future[None] = Future()
        """Nothing of it is left."""
        self.told = 0
        """How far the model has seen its output, in characters."""
        self._tell, self._limits = tell, limits
        self._loop = asyncio.get_running_loop()
        self._group = 0

    def begin(
        self,
        programs: Sequence[Sequence[str]],
        environment: Mapping[str, str],
        identity: RootIdentity,
        confined: Confinement | None,
    ) -> None:
        """Start its keeper and the thread that reads."""
        pipes = [os.pipe(), os.pipe()]
        writes = [write for _, write in pipes]
        spec = find_spec("ullage.workspace.keeper")
        assert spec is not None and spec.origin is not None
        try:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", "-X", "utf8", spec.origin],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,
                pass_fds=writes,
            )
        finally:
            for write in writes:
                os.close(write)
        assert self._keeper.stdout is not None
        reading = Reading(self, self._keeper.stdout.fileno(), [read for read, _ in pipes], self._limits)
        threading.Thread(target=self._read, args=(reading,), name=f"command {self.run_id}", daemon=True).start()
        root, outputs, grace = identity.real, tuple(writes), self._limits.command_grace_seconds
        limits = None if confined is None else (list(confined.writable), confined.network)
        same = (identity.device, identity.inode)
        order = ([list(argv) for argv in programs], dict(environment), root, same, outputs, grace, limits)
        frame = marshal.dumps(order)
        self._say(len(frame).to_bytes(4, "big") + frame)

    async def wait(self, seconds: float) -> Ended | None:
        """How it ended; None where it still runs after so many seconds.

        Raises:
            Refused: it never began.
        """
        waiting = asyncio.wrap_future(self.ended)
        done, _ = await asyncio.wait((waiting,), timeout=seconds)
        if not done:
            return None
        ended = waiting.result()
        if not ended.left:
            await asyncio.wait((asyncio.wrap_future(self.gone),), timeout=_LATE_S)
        return ended

    async def stop(self) -> None:
        """End it and all that it started: SIGTERM, and SIGKILL after the grace. No pipe's end is waited for."""
        self._say(b"stop\n")
        gone = asyncio.wrap_future(self.gone)
        done, _ = await asyncio.wait((gone,), timeout=self._limits.command_grace_seconds + _LATE_S)
        if not done:
            self._end_group()
            self._keeper.kill()
            await gone

    def _say(self, line: bytes) -> None:
        sink = self._keeper.stdin
        assert sink is not None
        with suppress(OSError, ValueError):
            sink.write(line)
            sink.flush()

    def _end_group(self) -> None:
        if self._group:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._group, signal.SIGKILL)

    # --- in the thread that reads ---

    def _read(self, reading: Reading) -> None:
        try:
            reading.run()
        finally:
            if self._keeper.wait() != 0:
                self._end_group()
            for pipe in (self._keeper.stdin, self._keeper.stdout):
                assert pipe is not None
                with suppress(OSError):
                    pipe.close()
            self.output.close()
            if not self.ended.done():
                self.ended.set_result(Ended())
            self.gone.set_result(None)

    def printed(self, start: int, text: str) -> None:
        """Tell a piece; nobody listens any more once the command has ended."""
        if not self.ended.done():
            with suppress(RuntimeError):  # the loop has ended meanwhile
                self._loop.call_soon_threadsafe(self._tell, start, text)

    def reported(self, fields: Sequence[str]) -> None:
        """A line of the keeper's."""
        match fields:
            case ["started", group]:
                self._group = int(group)
            case ["failed", why]:
                hint = "`ullage doctor` tells what commands need."
                self.ended.set_exception(Refused(f"The command did not start: {why}.", hint=hint, code="not_started"))
            case ["ended", status, *left]:
                self.ended.set_result(_ended(status, left))


class Commands:
    """The commands of one session. `writer` begins a blob for a long output."""

    def __init__(
        self,
        identity: RootIdentity,
        writer: Callable[[], BlobWriter],
        limits: Limits | None = None,
        environ: Mapping[str, str] | None = None,
        sandbox: Sandbox | None = None,
    ) -> None:
        self._identity, self._writer = identity, writer
        self.sandbox = sandbox or Sandbox()
        self.limits = limits or Limits()
        self._environ = os.environ if environ is None else environ
        self._numbers = count(1)
        self._runs: dict[str, Run] = {}
        """What runs, in front or in the background, by id."""
        self.background: dict[str, Run] = {}
        """What was put into the background, oldest first, also when it has ended."""

    def start(self, command: str, tell: Tell) -> Run:
        """Start a command line in the workspace's root.

        Raises:
            BadInput: no command line can be so.
        """
        if "\0" in command or not command.strip():
            raise BadInput("The command is empty, or holds a NUL.", hint="Give a command line.", code="bad_command")
        run_id = f"job-{next(self._numbers)}"
        run = Run(run_id, command, Output(self.limits, self._writer), tell, self.limits)
        run.begin(
            [(*shell, command) for shell in SHELLS],
            clean_environment(self._environ, self._identity.real),
            self._identity,
            confinement(self.sandbox, self._identity.real, self._environ),
        )
        self._runs = {key: each for key, each in self._runs.items() if not each.gone.done()} | {run_id: run}
        return run

    def has_room(self) -> bool:
        """Whether one more command may run in the background."""
        running = sum(not run.gone.done() for run in self.background.values())
        return running < self.limits.background_commands

    def keep(self, run: Run) -> None:
        """Let a command go on in the background."""
        self.background[run.run_id] = run
        for old in [each for each in self.background.values() if each.gone.done()][:-_REMEMBERED]:
            del self.background[old.run_id]

    async def close(self) -> None:
        """End everything."""
        await asyncio.gather(*(run.stop() for run in self._runs.values() if not run.gone.done()))


def _ended(status: str, left: Sequence[str]) -> Ended:
    who = tuple(Left(int(pid), line) for pid, line in zip(left[::2], left[1::2], strict=True))
    if not status:
        return Ended(left=who)
    code = os.waitstatus_to_exitcode(int(status))
    return Ended(code, None, who) if code >= 0 else Ended(None, _signal_name(-code), who)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
