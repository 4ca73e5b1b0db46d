"""What compactions keep of what was touched, said and went wrong, over the recorded sessions in ULLAGE_DATA.

    python benchmarks/bench_survival.py                 the recordings' own compactions: their summary beside ours
    python benchmarks/bench_survival.py 200000 32000    our own, of the same sessions walked in windows of these sizes

The questions are those of `ullage.lab.survival`. It exits with 1 where ours loses anything that a replacement of about
the size of a model's summary has room for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from ullage.cli.replay import Remembering
from ullage.context.assembly import assemble
from ullage.context.compaction import plan
from ullage.context.occupancy import FixedPart, budget, occupancy
from ullage.context.profiles.ullage import ULLAGE
from ullage.core.context import CompactionPlan, Reason, Replacement
from ullage.core.events import AnswerReceived
from ullage.core.ports import TokenCounter
from ullage.core.state import State
from ullage.importers.reading import format_of, read
from ullage.importers.story import Imported
from ullage.lab.projection import billing_of
from ullage.lab.script import script
from ullage.lab.survival import QUESTIONS, Compaction, Held, compactions, survival
from ullage.lab.walk import walk
from ullage.providers.tokens import load_counter

SUMMARY, SMALL = 2_700, 1_000
"""Tokens: about what model summaries take, and much less."""
WINDOW = 200_000


def ours(state: State, counter: TokenCounter, most: int | None, summary: str | None = None) -> Replacement:
    """Our replacement of a state, with at most `most` tokens where what is mandatory leaves room for that."""
    now, asked = occupancy(state, 0, budget(WINDOW, "recorded")), summary is not None
    fixed = FixedPart(0, ())
    planned = plan(state, Reason.MANUAL, now, fixed, ULLAGE, counter, most=most, has_summariser=asked)
    assert isinstance(planned, CompactionPlan), planned
    return assemble(planned, state, counter, ULLAGE, (), "fence", summary)


def recorded(sessions: Sequence[Imported], counter: TokenCounter) -> int:
    """The recordings' own compactions."""
    met = [one for session in sessions for one in compactions(session.entries)]
    makers: dict[str, Callable[[Compaction], Replacement]] = {
        "the recording's own summary": lambda one: one.replacement,
        f"ours, at most {SUMMARY:,}, no model": lambda one: ours(one.state, counter, SUMMARY),
        f"ours, at most {SMALL:,}, no model": lambda one: ours(one.state, counter, SMALL),
        "ours in 200k, no model": lambda one: ours(one.state, counter, None),
        "ours in 200k, with that summary": lambda one: ours(one.state, counter, None, one.replacement.ledger),
    }
    heading(f"{len(met)} recorded compactions")
    lost = {name: tell(name, [replace(one, replacement=make(one)) for one in met]) for name, make in makers.items()}
    return int(any(lost[name] for name in makers if name.startswith("ours") and f"{SMALL:,}" not in name))


def walked(sessions: Sequence[Imported], window: int, counter: TokenCounter) -> int:
    """Our own compactions in a window."""
    met: list[Compaction] = []
    for session in sessions:
        model = next(entry.event.model for entry in session.entries if isinstance(entry.event, AnswerReceived))
        billing = billing_of(session.state, model)
        met += compactions(walk(script(session.entries), window, counter, billing=billing).entries)
    return tell(f"{len(met)} compactions in {window:,}", met) if met else 0


# --- telling ---


def heading(what: str) -> None:
    print(f"{what:<36}{'tokens':>7}" + "".join(f"{question:>18}" for question in QUESTIONS))


def tell(name: str, met: Sequence[Compaction]) -> int:
    """A line: the median size of the replacements, and what they hold together. Gives how much they lost."""
    answers = [survival(one.source, one.replacement) for one in met]
    cells = "".join(f"{_pooled([answer[at] for answer in answers]):>18}" for at in range(len(QUESTIONS)))
    print(f"{name:<36}{median(one.replacement.tokens for one in met):>7,.0f}{cells}")
    return sum(len(held.lost) for answer in answers for held in answer)


def _pooled(found: Sequence[Held]) -> str:
    asked = sum(held.asked for held in found)
    return f"{100 * sum(held.kept for held in found) / asked:.1f} % of {asked:,}" if asked else "-"


def main(windows: list[int]) -> int:
    folder = os.environ.get("ULLAGE_DATA")
    if not folder:
        print("survival: skipped, ULLAGE_DATA does not say where recorded sessions are")
        return 0
    counter = Remembering(load_counter())
    paths = [path for path in sorted(Path(folder).glob("*.jsonl")) if format_of(path.read_bytes())]
    sessions = [read(path, counter) for path in paths]
    if not windows:
        return recorded(sessions, counter)
    heading("ours, no model")
    return max(int(walked(sessions, window, counter) > 0) for window in windows)


if __name__ == "__main__":
    sys.exit(main([int(argument) for argument in sys.argv[1:]]))
