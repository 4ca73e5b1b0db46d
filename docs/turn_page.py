"""docs/turn.md: the turn machine's table, and its picture as found by trying every input in every situation."""

from __future__ import annotations

import copy
import random
import re
from collections import defaultdict
from collections.abc import Iterator

from ullage.core.inputs import Input
from ullage.core.turn import TABLE, Cell, Verdict
from ullage.core.turn_state import TurnState
from ullage.testing.playbook import Stage, every_input

PAGE = """# The turn machine

{note}

One table decides every input in every state (`server/ullage/core/turn.py`). A name is the function that answers; `–`
is a late input that does no harm; *refused* answers its sender with an error.

{table}

Where the states lead, by what:

```mermaid
stateDiagram-v2
    [*] --> idle
{edges}
    closed --> [*]
```
"""

N_DRAWS = 6
"""Times that every input is drawn for a situation, with other ids and contents; the same every time."""


def turn_page(note: str) -> str:
    """The whole page; `note` says that it is generated."""
    return PAGE.format(note=note, table="\n".join(_rows()), edges="\n".join(_edges()))


def _rows() -> Iterator[str]:
    yield "| input | " + " | ".join(_words(state) for state in TurnState) + " |"
    yield "| --- " * (len(TurnState) + 1) + "|"
    for event, cells in TABLE.items():
        yield f"| `{event.__name__}` | " + " | ".join(_cell(cells[state]) for state in TurnState) + " |"


def _cell(cell: Cell) -> str:
    if isinstance(cell, Verdict):
        return "–" if cell is Verdict.IGNORED else "*refused*"
    return f"`{getattr(cell, '__name__', '?')}`"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _edges() -> Iterator[str]:
    found: defaultdict[tuple[TurnState, TurnState], set[str]] = defaultdict(set)
    first = Stage()
    met, to_do = {_situation(first)}, [first]
    for stage in to_do:  # grows while new situations are met
        for event in (event for draw in range(N_DRAWS) for event in every_input(random.Random(draw), stage)):
            after = _after(stage, event)
            if after.turn.state is not stage.turn.state:
                found[stage.turn.state, after.turn.state].add(_spoken(type(event).__name__))
            if (situation := _situation(after)) not in met:
                met.add(situation)
                to_do.append(after)
    order = list(TurnState)
    for (start, end), causes in sorted(found.items(), key=lambda edge: [order.index(state) for state in edge[0]]):
        yield f"    {start} --> {end}: {', '.join(sorted(causes))}"


def _after(stage: Stage, event: Input) -> Stage:
    after = copy.copy(stage)
    after.entries, after.ordered = list(stage.entries), []
    after.send(event)
    return after


def _situation(stage: Stage) -> tuple[object, ...]:
    """What tells stages apart for the picture; everything else only makes more of the same."""
    turn, facts = stage.turn, stage.state.facts
    inside = (facts.open_turn is not None, bool(facts.queue), facts.held is not None)
    sizes = (len(turn.running), len(turn.waiting), min(len(turn.wanted), 1))
    marks = (turn.planned is None, turn.compacting is None, turn.only_compaction, turn.closing)
    return (turn.state, *sizes, *marks, *inside)


def _spoken(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", " ", name).lower()
