"""Rows of the log: a durable commit, opening, a full fold. On the disk that holds this checkout."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import mkdtemp

from children import run_child
from floors.commit import commit
from floors.fold import fold as parse_lines
from history import AT, SESSION, Session, rough
from report import BUILD, Row, compare, cpu, timed, wall

from ullage.core.checkpoint import VERSION
from ullage.core.context import CompactionReport, Kept, Reason, Replacement, Strategy
from ullage.core.events import CheckpointCommitted, Event
from ullage.core.reduce import fold
from ullage.core.state import MessageItem, State
from ullage.storage.files import DiskFiles
from ullage.storage.log import SessionLog

SEED = 5
MB = 1_000_000
COMMITS = 150
END_MESSAGES = 100
"""Messages in the checkpoint of the logs that are opened, and as many behind it."""
END_BYTES = 750_000
"""What these take, about."""
FOLDED = 100_000
"""Events of the log that is folded."""


def rows() -> Iterator[Row]:
    """Every row of this group."""
    BUILD.mkdir(exist_ok=True)
    folder = Path(mkdtemp(prefix="bench-", dir=BUILD))
    try:
        yield _commit(folder)
        yield from _open(folder)
        yield _fold(folder)
    finally:
        shutil.rmtree(folder)


def _new_log(folder: Path, name: str, session: Session) -> tuple[SessionLog, Iterator[list[Event]]]:
    """A log of its own folder, and the batches that follow its header."""
    batches = session.batches()
    [created] = next(batches)
    return SessionLog.create(DiskFiles(), folder / name / f"{SESSION}.jsonl", created, AT), batches  # type: ignore[arg-type]


# --- a durable commit ---


def _commit(folder: Path) -> Row:
    """A step's batches, each appended and synced, against the same bytes written and synced."""
    log, batches = _new_log(folder, "commit", Session(SEED, rough))
    bare = os.open(folder / "floor", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    taken: tuple[list[float], list[float]] = ([], [])
    for batch in islice(batches, COMMITS):
        start = log.size
        taken[0].append(timed(lambda: (log.append(batch, AT), log.sync()), wall))  # noqa: B023  # called at once
        data = log.path.read_bytes()[start:]
        taken[1].append(timed(lambda: commit(bare, data), wall))  # noqa: B023
    log.close()
    os.close(bare)
    return Row("commit", "durable commit of one batch", "ms", 1e3 * median(taken[0]), 1e3 * median(taken[1]), 1.3)


# --- opening ---


def _open(folder: Path) -> Iterator[Row]:
    """A large log against a small one that ends alike, each opened in a process of its own."""
    large, small = _checkpointed(folder, "large", 100 * MB), _checkpointed(folder, "small", MB)
    opened = [[run_child("open", path, small) for path in (large, small)] for _ in range(7)]
    took = [1e3 * median(pair[side]["seconds"] for pair in opened) for side in (0, 1)]
    yield Row("open", "opening a 100 MB log with a checkpoint, against 1 MB", "ms", took[0], took[1], 2)
    memory = max(pair[0]["mib"] for pair in opened)
    yield Row("open.memory", "memory that opening the 100 MB log takes", "MiB", memory, most=50)


def _checkpointed(folder: Path, name: str, size: int) -> Path:
    """A log of about that size. Its checkpoint, and what follows that, have the same size in every such log."""
    log, batches = _new_log(folder, name, Session(SEED, rough, result_chars=6_000))
    state = fold(log.entries())
    while log.size < size - END_BYTES or state.facts.open_turn is not None:
        state = fold(log.append(next(batches), AT), state)
    state = fold(log.append([_checkpoint(state)], AT), state)
    while len(state.items) < 2 * END_MESSAGES:
        state = fold(log.append(next(batches), AT), state)
    log.sync()
    log.close()
    return log.path


def _checkpoint(state: State) -> CheckpointCommitted:
    """A compaction that keeps the newest messages, and is otherwise small."""
    items = [item for item in state.items[-END_MESSAGES:] if isinstance(item, MessageItem)]
    replacement = Replacement("## Objective\n- go on", (), (), (), "fence", tuple(map(_kept, items)), 10)
    report = CompactionReport(Reason.MANUAL, Strategy.DETERMINISTIC, "ullage", 0, 0, len(items), 0)
    facts = state.facts
    return CheckpointCommitted(VERSION, facts.last_seq, facts.revision, facts.epoch, replacement, report, facts)


def _kept(item: MessageItem) -> Kept:
    return Kept(item.seq, item.message, item.tokens)


# --- a full fold ---


def _fold(folder: Path) -> Row:
    """Reading, checking, decoding and reducing every event of a log, as opening without a checkpoint does."""
    log, batches = _new_log(folder, "fold", Session(SEED, rough, answer_chars=400, result_chars=1_500))
    while log.next_seq < FOLDED:
        log.append(next(batches), AT)
    log.close()
    # Once: it takes long enough to be its own average.
    ours, floor = compare(lambda: _opened(log.path), lambda: parse_lines(log.path), 1, cpu)
    what = f"full fold of {FOLDED:,} events, {log.size / MB:.0f} MB"
    return Row("fold", what, "ms", 1e3 * ours, 1e3 * floor, 4)


def _opened(path: Path) -> None:
    opened = SessionLog.open_readonly(DiskFiles(), path)
    opened.log.close()
    assert not opened.damage and not opened.state.facts.anomalies
