"""The `ullage` command: one module a subcommand, imported only when it is the one that was asked for.

A subcommand's module has `add_arguments(parser)` and `run(args)`, which returns the exit code. What it raises on
purpose (an `UllageError`) becomes two lines for a person: what happened, and what to do next.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from ullage import __version__
from ullage.core.errors import UllageError

COMMANDS: Final = {
    "serve": "answer an editor over stdin and stdout",
    "chat": "talk about a folder in the terminal",
    "run": "answer one prompt about a folder, without an editor and without a terminal",
    "sessions": "list the sessions of a folder, or show one as Markdown",
    "doctor": "tell what is configured and what is missing",
    "demo": "show a session of a folder, without a key and without changing anything",
    "replay": "show how a recorded session of another agent would have fared",
    "compact": "bring a history from stdin within a budget of tokens, without a server and without a model",
}
"""Subcommand to what it does; `ullage.cli.<name>` does it."""

SHOW_TRACEBACK: Final = "ULLAGE_TRACEBACK"
"""Environment variable: when it is set, an error nobody expected is shown with its traceback."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; the exit code is 0 (done), 1 (failed), 2 (not understood), 130 (interrupted) or
    what the subcommand's module says."""
    words = list(sys.argv[1:] if argv is None else argv)
    chosen = next((word for word in words if not word.startswith("-")), "")
    try:
        args = _parser(chosen).parse_args(words)
        return int(import_module(f"{__name__}.{args.command}").run(args))
    except UllageError as error:
        return _fail(error.report.message, error.report.hint)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return _unheard()
    except Exception as error:
        if os.environ.get(SHOW_TRACEBACK):
            traceback.print_exc()
        what = f"{type(error).__name__}: {error}"
        return _fail(f"unexpected error: {what}", f"Please report it, with what {SHOW_TRACEBACK}=1 shows.")


def _parser(chosen: str) -> argparse.ArgumentParser:
    """The parser; only the chosen subcommand has its arguments, because only its module is imported."""
    parser = argparse.ArgumentParser(prog="ullage", description="Keeps coding sessions inside the model's window.")
    parser.add_argument("--version", action="version", version=f"ullage {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    for name, does in COMMANDS.items():
        command = commands.add_parser(name, help=does, description=does.capitalize() + ".")
        if name == chosen:
            import_module(f"{__name__}.{name}").add_arguments(command)
    return parser


def _unheard() -> int:
    """Whoever read the output went away, as `head` does: no fault, and Python must not flush into the pipe at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def _fail(message: str, hint: str) -> int:
    print(f"ullage: {message}", file=sys.stderr)
    if hint:
        print(f"        {hint}", file=sys.stderr)
    return 1
