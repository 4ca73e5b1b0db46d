"""The `ullage` command: dispatch, exit codes, and errors as sentences."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import ullage
from ullage import cli
from ullage.core.errors import BadInput


def install(monkeypatch: pytest.MonkeyPatch, run: Callable[[argparse.Namespace], int]) -> None:
    """Put a subcommand `demo` in place of the real one."""
    module = ModuleType("ullage.cli.demo")
    module.add_arguments = lambda parser: parser.add_argument("folder")  # type: ignore[attr-defined]
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ullage.cli.demo", module)


def raising(error: BaseException) -> Callable[[argparse.Namespace], int]:
    def run(_args: argparse.Namespace) -> int:
        raise error

    return run


def test_a_subcommand_gets_its_arguments_and_gives_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    install(monkeypatch, lambda args: seen.append(args.folder) or 3)
    assert cli.main(["demo", "here"]) == 3
    assert seen == ["here"]


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (BadInput("no such folder", hint="Name one."), 1, "ullage: no such folder\n        Name one.\n"),
        (BadInput("no such folder"), 1, "ullage: no such folder\n"),
        (KeyboardInterrupt(), 130, ""),
        (ZeroDivisionError("by zero"), 1, "ullage: unexpected error: ZeroDivisionError: by zero\n"),
    ],
)
def test_errors_are_sentences(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, said: str
) -> None:
    monkeypatch.delenv(cli.SHOW_TRACEBACK, raising=False)
    install(monkeypatch, raising(error))
    assert cli.main(["demo", "here"]) == code
    told = capsys.readouterr().err
    assert told.startswith(said)
    assert "Traceback" not in told


def test_a_traceback_on_request(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(cli.SHOW_TRACEBACK, "1")
    install(monkeypatch, raising(ZeroDivisionError()))
    assert cli.main(["demo", "here"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["no-such-command"], ["--no-such-option"]])
def test_what_is_not_understood_is_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(words)
    assert caught.value.code == 2
    assert "usage: ullage" in capsys.readouterr().err


def test_python_m_ullage_tells_its_version() -> None:
    done = subprocess.run([sys.executable, "-m", "ullage", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"ullage {ullage.__version__}\n"


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    told = capsys.readouterr().out
    assert all(name in told for name in cli.COMMANDS)


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    """`ullage demo | head` told of an unexpected BrokenPipeError."""
    command = [sys.executable, "-m", "ullage", "demo", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert (process.wait(60), process.stderr.read()) == (1, b"")
