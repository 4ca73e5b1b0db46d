"""Figures, their goals, and how they are told: one table for people, one JSON file for programs."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
FLOORS = HERE / "floors"
BUILD = HERE.parent / "build"


@dataclass(frozen=True, slots=True)
class Row:
    """One figure beside its floor. A floor is the least that the same work takes; a goal bounds their ratio, the
    figure, or both."""

    name: str
    what: str
    unit: str
    ours: float
    floor: float | None = None
    most_ratio: float | None = None
    most: float | None = None

    @property
    def ratio(self) -> float | None:
        return None if self.floor is None else self.ours / self.floor

    @property
    def word(self) -> str:
        """Whether the goal is met; a dash where there is none."""
        bounds = ((self.ratio, self.most_ratio), (self.ours, self.most))
        asked = [value is not None and value <= bound for value, bound in bounds if bound is not None]
        return ("met" if all(asked) else "missed") if asked else "-"

    @property
    def goal(self) -> str:
        parts = [f"<= {self.most_ratio:g} x"] if self.most_ratio is not None else []
        parts += [f"<= {self.most:g} {self.unit}"] if self.most is not None else []
        return ", ".join(parts) or "-"


# --- measuring ---

Clock = Callable[[], float]


def compare(ours: Callable[[], object], floor: Callable[[], object], runs: int, clock: Clock) -> tuple[float, float]:
    """Medians of ours and of the floor, run in turn, so that what else the machine does falls on both alike."""
    taken: tuple[list[float], list[float]] = ([], [])
    for run in range(runs):
        for side in (0, 1) if run % 2 else (1, 0):
            taken[side].append(timed((ours, floor)[side], clock))
    return median(taken[0]), median(taken[1])


def timed(work: Callable[[], object], clock: Clock) -> float:
    """Seconds that the work takes."""
    start = clock()
    work()
    return clock() - start


# --- telling ---


def table(rows: Iterable[Row]) -> str:
    """The rows for people."""
    cells = [("what", "ours", "floor", "ratio", "goal", ""), *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(6)]
    return "\n".join("  ".join(_aligned(line, widths)).rstrip() for line in cells)


def _aligned(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell.rjust(width) if 1 <= at <= 3 else cell.ljust(width)
        for at, (cell, width) in enumerate(zip(line, widths, strict=True))
    ]


def _cells(row: Row) -> tuple[str, ...]:
    floor = "" if row.floor is None else _figure(row.floor)
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    return (row.what, f"{_figure(row.ours)} {row.unit}", floor, ratio, row.goal, row.word)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def machine() -> dict[str, str | int | float]:
    """What the figures depend on, and nothing that names the machine."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count() or 0,
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "system": platform.system(),
    }


def floors() -> dict[str, str]:
    """The floor scripts by name, with the sha256 of each."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(FLOORS.glob("*.py"))}


def write_json(rows: Sequence[Row], about: dict[str, str | int | float], path: Path) -> None:
    """The same for programs."""
    told = [asdict(row) | {"ratio": row.ratio, "word": row.word} for row in rows]
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"machine": about, "floors": floors(), "rows": told}, indent=2) + "\n", "utf-8")


wall = time.perf_counter
cpu = time.process_time
