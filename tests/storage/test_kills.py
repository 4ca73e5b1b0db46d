"""R3 and R9: processes that are killed, and processes that want the same session."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.storage.histories import AT, Writer, prompt

from ullage.core.errors import SessionUnavailable
from ullage.storage.files import DiskFiles
from ullage.storage.log import SessionLog

TESTS = Path(__file__).parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(TESTS.parents[1])}

HOLDER = """
import sys
from pathlib import Path
from ullage.storage.files import DiskFiles
from ullage.storage.log import SessionLog
opened = SessionLog.open(DiskFiles(), Path(sys.argv[1]), 1, "holder")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: what a kill leaves doesn't depend on the disk, and syncs cost time."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


def test_nothing_acknowledged_is_lost_in_2000_kills(quick_folder: Path) -> None:
    """R3, bugs row 22: and torn tails were seen, or the test would prove nothing."""
    program = [sys.executable, str(TESTS / "kill_loop.py"), "2000", str(quick_folder), "7"]
    seen = json.loads(subprocess.run(program, capture_output=True, check=True, env=ENVIRONMENT).stdout)
    assert seen["kills"] == 2000
    assert (seen["missing"], seen["damaged"]) == (0, 0), seen
    assert seen["acked"] > 500
    assert seen["torn"] >= 10, seen


def holder(path: Path) -> subprocess.Popen[bytes]:
    """Another process that has the session open."""
    program = [sys.executable, "-c", HOLDER, str(path)]
    process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


@pytest.mark.parametrize("end", ["kill", "close"] * 6)
def test_one_writer_and_the_second_is_told_who(tmp_path: Path, end: str) -> None:
    """R9, T041, bugs rows 28 and 61, W-C7: busy with the owner's pid, watching goes on, the lock dies with it."""
    writer = Writer(DiskFiles(), tmp_path)
    writer.log.close()
    other = holder(writer.path)
    try:
        with pytest.raises(SessionUnavailable) as refused:
            SessionLog.open(writer.files, writer.path, AT)
        report = refused.value.report
        assert report.code == "session_busy"
        assert dict(report.data)["pid"] == other.pid
        assert dict(report.data)["client"] == "holder"
        assert SessionLog.open_readonly(writer.files, writer.path).state.facts.last_seq == 0
    finally:
        other.send_signal(signal.SIGKILL) if end == "kill" else None
        other.communicate()
    opened = SessionLog.open(writer.files, writer.path, AT)
    opened.log.append([prompt("mine")], AT)
    opened.log.close()
