"""Projection of the next request, ours beside seven estimators, over the recorded sessions in ULLAGE_DATA.

The reference: the last reported usage, plus an o200k count of the new text times a ratio that is learned in the session
(billed to counted, prior 1.0 worth 2,000 tokens), everything as the recording has it. Estimates from scratch take the
fixed part, which no record holds, from a session's first answer. It exits with 1 where ours is worse than the reference
in median or p95, or too low as often as not.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ullage.cli.replay import Remembering
from ullage.core.events import AnswerReceived, Entry, ResultReceived
from ullage.core.messages import Part, Reasoning, Text, ToolCall, ToolResult
from ullage.core.ports import TokenCounter
from ullage.core.ratio import corrected, prior, uncorrected
from ullage.core.reduce import reduce
from ullage.core.state import Item, MessageItem, ReplacementItem, State
from ullage.importers.reading import READERS, format_of
from ullage.lab.projection import Errors, errors, projections
from ullage.lab.survival import shown
from ullage.providers.tokens import load_counter

PRIOR_TOKENS = 2_000
REFERENCE, OURS, SCRATCH = "usage + self-calibrated o200k (reference)", "ours", "ours from scratch, family's prior"

Count = Callable[[str], float]


class Nothing:
    """Counts nothing, so that an import keeps usage exactly as it was recorded."""

    encoding = "nothing"

    def count(self, text: str) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Found:
    """Errors of one session's steps by method; each a share of what was billed."""

    family: str
    rows: dict[str, list[float]]


def measure(path: Path, counter: TokenCounter) -> Found:
    content = path.read_bytes()
    read = READERS[str(format_of(content))]
    name = str(format_of(content))
    entries = read(content, counter).entries
    steps = [step for step in projections(entries) if step.measured]
    model = steps[0].model if steps else ""
    plain, o200k = read(content, Nothing()).entries, counter.count
    sent = list(_sent(entries, name))
    rows = {
        "from scratch, chars/4": list(whole(sent, quarter)),
        "from scratch, o200k": list(whole(sent, o200k)),
        "from scratch, o200k x 1.25": list(whole(sent, lambda text: 1.25 * o200k(text))),
        "last usage alone": list(added(plain, lambda text: 0)),
        "usage + chars/4 of the new text": list(added(plain, quarter)),
        "usage + o200k of the new text": list(added(plain, o200k)),
        REFERENCE: list(added(plain, o200k, prior=PRIOR_TOKENS)),
        OURS: [step.error for step in steps],
        "ours without the ratio": [step.plain_error for step in steps],
        SCRATCH: list(scratch(sent)),
    }
    return Found("Claude" if model.startswith("claude") else "GPT", rows)


def _sent(entries: Iterable[Entry], format: str) -> Iterator[Entry]:
    """What requests held: pi records answers that were cut off and what their calls gave back, but never sends them."""
    cut: set[tuple[str, int]] = set()
    for entry in entries:
        event = entry.event
        if isinstance(event, AnswerReceived) and event.stop in ("cancelled", "failed") and format == "pi":
            cut.add((event.turn_id, event.step))
        elif not (isinstance(event, ResultReceived) and (event.turn_id, event.step) in cut):
            yield entry


def quarter(text: str) -> float:
    return len(text) / 4


def added(entries: Iterable[Entry], count: Count, prior: int | None = None) -> Iterator[float]:
    """Errors of the last usage plus the new text, on the steps that have one; with a prior's weight, times a ratio."""
    state, billed, counted = State(), 0.0, 0.0
    for entry in entries:
        event = entry.event
        before = state.facts.baseline
        if isinstance(event, AnswerReceived) and before is not None and event.usage.prompt:
            new = sum(_count(item, count, thoughts=False) for item in state.items[before.length :])
            ratio = (prior + billed) / (prior + counted) if prior else 1.0
            yield (before.total + ratio * new - event.usage.prompt) / event.usage.prompt
            billed, counted = billed + event.usage.prompt - before.total, counted + new
        state = reduce(state, entry)


def whole(entries: Iterable[Entry], count: Count) -> Iterator[float]:
    """Errors of the fixed part plus all text that a request held."""
    state, fixed, total, places = State(), None, 0.0, 0
    for entry in entries:
        event = entry.event
        if isinstance(event, AnswerReceived) and event.usage.prompt:
            if fixed is None:
                fixed = max(0.0, event.usage.prompt - total)
            else:
                yield (fixed + total - event.usage.prompt) / event.usage.prompt
        before, state = state, reduce(state, entry)
        if state.facts.revision != before.facts.revision:
            total, places = 0.0, 0
        total += sum(_count(item, count, thoughts=True) for item in state.items[places:])
        places = len(state.items)


def _count(item: Item, count: Count, *, thoughts: bool) -> float:
    if isinstance(item, ReplacementItem):
        return count(shown(item.replacement))
    parts = item.message.parts if isinstance(item, MessageItem) else ()
    return sum(count(_text(part)) for part in parts if thoughts or isinstance(part, Text | ToolResult))


def _text(part: Part) -> str:
    match part:
        case Text(text) | ToolResult(_, text) | Reasoning(text):
            return text
        case ToolCall():
            return part.arguments
        case _:
            return ""


def scratch(entries: Iterable[Entry]) -> Iterator[float]:
    """Errors without any usage: the whole request counted. The fixed part, which no record holds, is the first's."""
    state, fixed = State(), None
    for entry in entries:
        event = entry.event
        if isinstance(event, AnswerReceived) and event.usage.prompt:
            per_mille = prior(event.model)
            if fixed is None:
                fixed = max(0, uncorrected(event.usage.prompt, per_mille) - state.tokens)
            else:
                yield (corrected(fixed + state.tokens, per_mille) - event.usage.prompt) / event.usage.prompt
        state = reduce(state, entry)


def main() -> int:
    folder = os.environ.get("ULLAGE_DATA")
    if not folder:
        print("projection: skipped, ULLAGE_DATA does not say where recorded sessions are")
        return 0
    counter = Remembering(load_counter())
    paths = [path for path in sorted(Path(folder).glob("*.jsonl")) if format_of(path.read_bytes())]
    found = [measure(path, counter) for path in paths]
    worse = False
    for family in sorted({one.family for one in found}):
        pooled = _pooled([one for one in found if one.family == family])
        print(f"\n{family}: {sum(one.family == family for one in found)} sessions")
        for name, row in pooled.items():
            print(f"  {name:<44}{row.steps:>6,}{row.median:>9.3f} %{row.p95:>8.2f} %{row.too_low:>6.0f} % too low")
        worse |= _worse(pooled)
    return int(worse)


def _pooled(found: list[Found]) -> dict[str, Errors]:
    return {name: errors([error for one in found for error in one.rows[name]]) for name in found[0].rows}


def _worse(pooled: dict[str, Errors]) -> bool:
    theirs, ours = pooled[REFERENCE], pooled[OURS]
    return ours.median > theirs.median or ours.p95 > theirs.p95 or ours.too_low >= 50


if __name__ == "__main__":
    sys.exit(main())
