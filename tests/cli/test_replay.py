"""`ullage replay`: the report of a small session, as lines and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.importers.samples import claude_code

from ullage.cli import main


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "session.jsonl"
    path.write_bytes(claude_code().content + b"{broken\n")
    return path


def test_the_report_is_for_people(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(recording), "--window", "32000"]) == 0
    said = capsys.readouterr().out
    assert "claude_code session: 6 answers of claude-opus-4-5-20251101, 1 compactions" in said
    assert "1 places could not be read" in said and "with the learned ratio" in said
    assert "In a window of 32,000 tokens" in said and "6 requests (6 below handoff)" in said


def test_the_figures_come_as_json(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(recording), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["session"]["answers"] == figures["walk"]["requests"] == 6
    assert figures["walk"]["window"] == 200_000 and figures["walk"]["failures"] == []


@pytest.mark.parametrize("wrong", [["--window", "7"], ["--profile", "none"]])
def test_what_makes_no_sense_is_said(recording: Path, wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(recording), *wrong]) == 1
    assert "ullage: " in capsys.readouterr().err


def test_another_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(tmp_path / "none.jsonl")]) == 1
    (tmp_path / "notes.md").write_text("# Notes", encoding="utf-8")
    assert main(["replay", str(tmp_path / "notes.md")]) == 1
    said = capsys.readouterr().err
    assert "can't be read" in said and "no recorded session" in said and "Traceback" not in said
