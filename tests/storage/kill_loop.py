"""R3: a process that appends and acknowledges, killed at random, again and again. Prints what was seen as JSON.

Its own program, so that each kill costs one fork of a small process. Run with: kills, folder, seed.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import struct
import sys
import time
from pathlib import Path

from tests.storage.histories import AT, created, place, prompt

from ullage.core.events import SessionRenamed
from ullage.storage.files import DiskFiles
from ullage.storage.log import SessionLog

KILLS_A_LOG = 10


def child(path: Path, out: int, seed: int) -> None:
    """Append, sync, say so, for ever. Lines are long: a kill tears a write between two pages."""
    rng = random.Random(seed)
    log = SessionLog.open(DiskFiles(), path, AT).log
    while True:
        event = SessionRenamed("x" * 60_000) if rng.random() < 0.7 else prompt(f"t{log.next_seq}")
        log.append([event], AT)
        os.write(out, struct.pack("<q", log.sync()))


def kill_once(path: Path, rng: random.Random, after: int) -> int:
    """Fork the child, kill it some time after its first acks; the newest seq it acknowledged."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            child(path, write, rng.randrange(1 << 30))
        finally:
            os._exit(1)
    os.close(write)
    acked = -1
    for _ in range(after):
        acked = struct.unpack("<q", os.read(read, 8))[0]
    until = time.perf_counter() + rng.random() * 0.0006
    while time.perf_counter() < until:
        pass
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    while more := os.read(read, 8):
        acked = struct.unpack("<q", more)[0]
    os.close(read)
    return acked


def run(kills: int, folder: Path, seed: int) -> dict[str, int]:
    """Kill that often; after each kill whatever was acknowledged must be there, in a log without damage."""
    rng, files = random.Random(seed), DiskFiles()
    seen = {"kills": 0, "acked": 0, "missing": 0, "torn": 0, "damaged": 0}
    while seen["kills"] < kills:
        home = folder / str(seen["kills"])
        path = place(home)
        SessionLog.create(files, path, created(), AT).close()
        promised = 0
        for _ in range(min(KILLS_A_LOG, kills - seen["kills"])):
            acked = kill_once(path, rng, rng.randrange(3))
            promised = max(promised, acked)
            seen["acked"] += acked >= 0
            opened = SessionLog.open(files, path, AT)
            opened.log.close()
            seen["kills"] += 1
            seen["torn"] += opened.repaired is not None
            seen["damaged"] += bool(opened.damage)
            seen["missing"] += opened.state.facts.last_seq < promised
        whole = SessionLog.open_readonly(files, path).log
        seen["missing"] += len(set(range(promised)) - {entry.seq for entry in whole.entries()})
        shutil.rmtree(home)
    return seen


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))))
