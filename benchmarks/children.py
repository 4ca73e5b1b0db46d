"""Measurements that need a process of their own: `python benchmarks/children.py NAME ARGUMENT...` prints JSON.

Memory is the peak of resident memory while the work runs, above what was resident before it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

KIB = 1024


def run_child(name: str, *arguments: object) -> dict[str, float]:
    """Measure in a fresh process."""
    command = [sys.executable, __file__, name, *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


# --- in the child ---


def measured(work: Callable[[], object]) -> dict[str, float]:
    """Seconds and MiB that the work takes; what it returns is alive while memory is taken."""
    before = _forget_peak()
    start = perf_counter()
    kept = work()
    seconds = perf_counter() - start
    figures = {"seconds": seconds, "mib": max(0.0, memory("VmHWM") - before)}
    del kept
    return figures


def memory(field: str, pid: int | str = "self") -> float:
    """MiB of a process: VmRSS is resident now, VmHWM the peak of that."""
    found = re.search(rf"^{field}:\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text("ascii"), re.MULTILINE)
    assert found is not None, f"no {field} of process {pid}"
    return int(found[1]) / KIB


def _forget_peak() -> float:
    """Make the peak what is resident now, and return that."""
    Path("/proc/self/clear_refs").write_text("5", "ascii")
    return memory("VmRSS")


def _open(path: str, warm: str) -> dict[str, float]:
    """Open a log for writing, after another one was opened: what is made only once is not counted."""
    from ullage.storage.files import DiskFiles
    from ullage.storage.log import SessionLog

    SessionLog.open_readonly(DiskFiles(), Path(warm)).log.close()
    return measured(lambda: SessionLog.open(DiskFiles(), Path(path), 1_700_000_000_000))


def _receive(kind: str, mib: str) -> dict[str, float]:
    """Take in one message of that size. Its pieces come one by one, as from a pipe, and count as ours."""
    from bodies import body_of, pieces_of, receive

    receive(pieces_of(body_of(kind, 1)))
    body = body_of(kind, int(mib))
    return measured(lambda: receive(pieces_of(body)))


CHILDREN = {"open": _open, "receive": _receive}

if __name__ == "__main__":
    print(json.dumps(CHILDREN[sys.argv[1]](*sys.argv[2:])))
