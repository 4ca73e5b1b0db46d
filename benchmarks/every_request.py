"""`tessera check` (tessera-transcript 0.1.0; install it beside ullage, no dependency) on every request we would send.

The recorded sessions in ULLAGE_DATA are walked in each window; each request is judged in both APIs' shapes, in process,
as `tessera check` judges a file. It exits with 1 where one has a finding.

    python benchmarks/every_request.py [WINDOW ...]
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tessera import inspect

from ullage.cli.replay import Remembering
from ullage.core.context import Occupancy
from ullage.core.requests import Request
from ullage.core.state import State
from ullage.importers.reading import format_of, read
from ullage.lab.script import script
from ullage.lab.walk import walk
from ullage.providers.anthropic_shape import anthropic_messages
from ullage.providers.openai_shape import openai_messages
from ullage.providers.tokens import load_counter

WINDOWS = (32_000, 64_000, 128_000, 200_000, 1_000_000)
BILLING = 1_250


class Judge:
    """Counts the requests it was shown, and keeps what is wrong with them."""

    def __init__(self) -> None:
        self.judged = 0
        self.findings: list[str] = []

    def watch(self, request: Request, state: State, now: Occupancy) -> None:
        self.judged += 1
        anthropic, openai = anthropic_messages(request.messages), openai_messages(request.messages)
        for name, messages in (("anthropic", anthropic), ("openai", openai)):
            self.findings += [f"{name}: {finding}" for finding in inspect(messages, adapter=name).findings]


def main(windows: list[int]) -> int:
    folder = os.environ.get("ULLAGE_DATA")
    if not folder:
        print("every request: skipped, ULLAGE_DATA does not say where recorded sessions are")
        return 0
    counter, found = Remembering(load_counter()), 0
    paths = [path for path in sorted(Path(folder).glob("*.jsonl")) if format_of(path.read_bytes())]
    moves = [script(read(path, counter).entries) for path in paths]
    for window in windows or WINDOWS:
        judge = Judge()
        for session in moves:
            walk(session, window, counter, billing=BILLING, watch=judge.watch)
        found += len(judge.findings)
        print(f"{window:>9,}: {judge.judged:,} requests of {len(moves)} sessions, {len(judge.findings)} findings")
        print("".join(f"  {finding}\n" for finding in judge.findings[:5]), end="", flush=True)
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main([int(argument) for argument in sys.argv[1:]]))
