"""`ullage demo`, as a newcomer runs it: a real server process, killed and started again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ullage.cli.demo import hidden_texts
from ullage.context.handoff import TAG

DEMO = (sys.executable, "-m", "ullage", "demo")


def fill(folder: Path, files: int) -> None:
    """A workspace of some folders with sources, tests and prose."""
    for number in range(files):
        part = folder / f"part_{number % 6}"
        part.mkdir(exist_ok=True)
        body = "\n".join(f"def function_{number}_{line}(argument): return argument + {line}" for line in range(40))
        (part / f"module_{number:02}.py").write_text(f"# TODO: module {number}\n{body}\n")
    (folder / "README.md").write_text("# A project\n")


def demo(folder: Path, window: int) -> str:
    """Its output; every promise held."""
    command = [*DEMO, str(folder), "--window", str(window)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def test_the_demo_shows_the_main_job(tmp_path: Path) -> None:
    """Handoff, compactions, kill and resume, fork; and no tool call went wrong but those that were killed."""
    fill(tmp_path, 60)
    shown = demo(tmp_path, 12_000)
    assert re.search(r"handoffs +[1-9]", shown)
    assert int(re.findall(r"compactions +(\d+)", shown)[-1]) >= 2
    assert "one of them killed" in shown and ", 0 lost" in shown and "forked at seq" in shown
    assert re.search(r"hidden text sent +0 \(searched [\d,]+ messages for [1-9]", shown)
    assert all("Outcome unknown" in line for line in shown.splitlines() if "FAILED" in line)
    assert re.search(r"Progress: `40 of 61` files read, `21` are left", shown)
    assert re.search(r"Progress: `(?:40|61) of 61` files read", shown.split("A new server")[1])


def test_an_empty_folder_has_nothing_to_show(tmp_path: Path) -> None:
    assert "There is nothing to read in the workspace" in demo(tmp_path, 32_000)


@pytest.mark.parametrize(
    ("words", "variables", "said"),
    [
        (["--window", "0"], {}, "setting window (command line)"),
        ([], {"ULLAGE_LIMITS_TOOLS_SECONDS": "soon"}, "setting limits.tools.seconds (environment)"),
    ],
)
def test_a_server_that_does_not_start_says_why(
    tmp_path: Path, words: list[str], variables: dict[str, str], said: str
) -> None:
    """It was a minute of silence, and then a TimeoutError."""
    done = subprocess.run(
        [*DEMO, str(tmp_path), *words],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env=os.environ | variables,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("ullage: The server did not start.\n") and said in done.stderr


def test_a_persons_own_settings_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a model and a key in the environment Claude would answer, though the demo says that nothing leaves."""
    monkeypatch.setenv("ULLAGE_MODEL", "claude-haiku-4-5")
    monkeypatch.setenv("ULLAGE_BASE_URL", "http://127.0.0.1:9")
    assert "There is nothing to read in the workspace" in demo(tmp_path, 32_000)


def test_a_demo_that_is_ended_leaves_nothing(tmp_path: Path) -> None:
    """By SIGTERM in the middle: no server process, no home, no traceback."""
    workspace, scratch = tmp_path / "workspace", tmp_path / "scratch"
    workspace.mkdir()
    scratch.mkdir()
    fill(workspace, 60)
    with subprocess.Popen(
        [*DEMO, str(workspace)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(scratch), "PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        line = next(line for line in process.stdout if "server process" in line)
        process.terminate()
        process.stdout.read()
        assert (process.wait(30), process.stderr.read()) == (130, "")
    assert list(scratch.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int(re.findall(r"process (\d+)", line)[0]), 0)


@pytest.mark.parametrize("record", ["{}", "nonsense", ""])
def test_what_a_log_hides_is_known_by_its_records(tmp_path: Path, record: str) -> None:
    good = {
        "version": 1,
        "messageId": "handoff-message-7",
        "observedPromptTokens": 75,
        "availableForInput": 100,
        "handoffThreshold": 70,
        "compactionThreshold": 80,
        "createdAt": "2026-01-01T00:00:00.000Z",
    }
    log = tmp_path / "log.jsonl"
    events = [{"kind": "handoff_recorded", "record": text} for text in (json.dumps(good), record)]
    log.write_text(json.dumps({"events": events}) + "\n" + json.dumps({"events": [{"kind": "turn_ended"}]}) + "\n")
    name, reminder = hidden_texts(log)
    assert name == b"handoff-message-7"
    assert json.dumps(TAG)[1:-1].encode() in reminder
    said = json.loads(b'"' + reminder + b'"')
    assert reminder in json.dumps({"text": f"It said: {said}"}).encode()
