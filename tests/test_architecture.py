"""The house's rules, held by reading the source: who may import whom, what is pure, how long things get."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "server" / "ullage"
TESTS = ROOT / "tests"

BASE = {"core"}
ENGINE = BASE | {"context"}
BELOW = ENGINE | {"workspace", "wire", "storage", "providers", "tools"}
EDGE = BELOW | {"sessions"}
MAY_IMPORT = {
    "core": set[str](),
    "context": BASE,
    "workspace": BASE,
    "wire": BASE,
    "storage": ENGINE,
    "providers": ENGINE,
    "tools": BASE | {"workspace"},
    "sessions": BELOW,
    "editors": EDGE,
    "importers": EDGE,
    "lab": EDGE,
    "testing": EDGE,
}
"""Package to the packages it may import besides itself. `settings` with its `spending`, and `cli`, may import all."""

EVERYTHING = {"settings", "spending", "cli", "__main__"}

PURE = {"core", "context"}
# fmt: off
PURE_MAY_IMPORT = {
    "__future__", "abc", "base64", "binascii", "bisect", "collections", "copy", "dataclasses", "datetime", "difflib",
    "enum", "functools", "hashlib", "heapq", "html", "itertools", "json", "math", "operator", "posixpath",
    "re", "shlex", "string", "struct", "textwrap", "types", "typing", "unicodedata", "zlib",
}
# fmt: on
"""Modules without I/O, clock, random or tasks; and of `pathlib` only the pure paths."""
PURE_PATHS = {"PurePath", "PurePosixPath"}
IMPURE_CALLS = {"open", "print", "input", "exec", "eval", "breakpoint"}
CLOCK_CALLS = {"now", "today", "utcnow"}
"""A `datetime` is a value; asking it for the time is not pure."""

PYDANTIC_IN = {"editors", "tools", "settings", "spending"}
MAX_FUNCTION, MAX_FILE = 80, 400


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def package_of(path: Path) -> str:
    """`ullage/core/turn.py` is of `core`; a module beside the packages is of its own name."""
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """Each (module, name) a file imports anywhere in it; the name of `import x` is empty."""
    here = ("ullage", *path.relative_to(SOURCE).parent.parts)
    for node in ast.walk(parsed(path)):
        match node:
            case ast.Import(names=names):
                yield from ((alias.name, "") for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = ".".join(here[: len(here) - level + 1]) if level else ""
                whole = ".".join(part for part in (base, module) if part)
                yield from ((whole, alias.name) for alias in names)


def ours(path: Path) -> Iterator[str]:
    """The packages of ours that a file imports."""
    for module, name in imports(path):
        parts = module.split(".")
        if parts[0] == "ullage" and (len(parts) > 1 or name != "__version__"):
            yield parts[1] if len(parts) > 1 else name


def wrong_imports(path: Path) -> list[str]:
    package = package_of(path)
    if package in EVERYTHING or path == SOURCE / "__init__.py":
        return []
    return sorted(set(ours(path)) - MAY_IMPORT[package] - {package})


def impurities(path: Path) -> Iterator[str]:
    for module, name in imports(path):
        top = module.split(".")[0]
        pure = top in PURE_MAY_IMPORT or top == "ullage" or (top == "pathlib" and name in PURE_PATHS)
        if not pure:
            yield f"imports {module}"
    for node in ast.walk(parsed(path)):
        match node:
            case ast.Call(func=ast.Name(id=called)) if called in IMPURE_CALLS:
                yield f"line {node.lineno} calls {called}"
            case ast.Call(func=ast.Attribute(attr=called)) if called in CLOCK_CALLS:
                yield f"line {node.lineno} asks the clock"


def dropped_tasks(tree: ast.Module) -> Iterator[int]:
    """Lines that start a task and keep no reference: nobody owns it, nobody waits for it, errors vanish.

    A task group keeps its own reference, so its variable ends in `group`.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="create_task", value=ast.Name(id=owner)))):
                if not owner.endswith("group"):
                    yield node.lineno
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="create_task" | "ensure_future"))):
                yield node.lineno
            case ast.Expr(value=ast.Call(func=ast.Name(id="create_task" | "ensure_future"))):
                yield node.lineno


def waits_and_mocks(tree: ast.Module) -> Iterator[str]:
    """`sleep(0)` is allowed: it only lets other tasks run."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="sleep") | ast.Name(id="sleep"), args=[ast.Constant(value=0)]):
                pass
            case ast.Call(func=ast.Attribute(attr="sleep") | ast.Name(id="sleep")):
                yield f"line {node.lineno} sleeps"
            case ast.Import(names=names) if any("mock" in alias.name.split(".") for alias in names):
                yield f"line {node.lineno} imports mock"
            case ast.ImportFrom(module=str(module), names=names):
                if "mock" in module.split(".") or any(alias.name == "mock" for alias in names):
                    yield f"line {node.lineno} imports mock"


def found(rule: object) -> list[str]:
    """What a rule found in all modules, as `path: finding`."""
    assert callable(rule)
    return [f"{path.relative_to(SOURCE)}: {finding}" for path in modules() for finding in rule(path)]


def test_the_import_table_holds() -> None:
    assert not found(wrong_imports)


def test_every_package_is_in_the_table() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert packages <= MAY_IMPORT.keys() | EVERYTHING


def test_core_and_context_are_pure() -> None:
    assert not found(lambda path: impurities(path) if package_of(path) in PURE else ())


def test_pydantic_stays_at_the_border() -> None:
    def rule(path: Path) -> list[str]:
        borders = package_of(path) in PYDANTIC_IN
        return [] if borders else [module for module, _ in imports(path) if module.startswith("pydantic")]

    assert not found(rule)


def test_functions_and_files_are_short() -> None:
    def rule(path: Path) -> Iterator[str]:
        n_lines = len(path.read_text(encoding="utf-8").splitlines())
        if n_lines > MAX_FILE:
            yield f"{n_lines} lines"
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                if length > MAX_FUNCTION:
                    yield f"{node.name} has {length} lines"

    assert not found(rule)


def test_every_task_has_an_owner() -> None:
    assert not found(lambda path: [f"line {line}" for line in dropped_tasks(parsed(path))])


def test_tests_neither_sleep_nor_mock() -> None:
    wrong = [f"{path.name}: {what}" for path in TESTS.rglob("*.py") for what in waits_and_mocks(parsed(path))]
    assert not wrong


# --- the rules can fail ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "findings"),
    [
        ("import asyncio\nasyncio.create_task(work())", 1),
        ("from asyncio import ensure_future\nensure_future(work())", 1),
        ("self.loop.create_task(work())", 1),
        ("task = asyncio.create_task(work())", 0),
        ("group.create_task(work())", 0),
    ],
)
def test_a_dropped_task_is_found(code: str, findings: int) -> None:
    assert len(list(dropped_tasks(ast.parse(code)))) == findings


@pytest.mark.parametrize(
    ("code", "findings"),
    [
        ("import time\ntime.sleep(1)", 1),
        ("await asyncio.sleep(0.01)", 1),
        ("await asyncio.sleep(0)", 0),
        ("from unittest import mock", 1),
        ("from unittest.mock import patch", 1),
        ("import unittest.mock", 1),
    ],
)
def test_a_sleep_or_a_mock_is_found(code: str, findings: int) -> None:
    assert len(list(waits_and_mocks(ast.parse(code)))) == findings


@pytest.mark.parametrize(
    ("code", "packages"),
    [
        ("import ullage.storage.log", ["storage"]),
        ("from ullage import sessions", ["sessions"]),
        ("from ..wire import framing", ["wire"]),
        ("def f():\n    from ullage.cli import main", ["cli"]),
        ("from ullage.core import errors\nfrom ullage import __version__\nimport json", []),
    ],
)
def test_a_wrong_import_is_found(
    code: str, packages: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path)
    module = tmp_path / "context" / "module.py"
    module.parent.mkdir()
    module.write_text(code, encoding="utf-8")
    assert wrong_imports(module) == packages


@pytest.mark.parametrize(
    ("code", "findings"),
    [
        ("import os", 1),
        ("from pathlib import Path", 1),
        ("from pathlib import PurePosixPath", 0),
        ("import json, time", 1),
        ("open('x')", 1),
        ("from datetime import datetime\ndatetime.now()", 1),
        ("from datetime import datetime\ndatetime(2026, 1, 1)", 0),
    ],
)
def test_an_impurity_is_found(code: str, findings: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path)
    module = tmp_path / "module.py"
    module.write_text(code, encoding="utf-8")
    assert len(list(impurities(module))) == findings


# --- start-up --------------------------------------------------------------------------------------------------------

HEAVY = ("pydantic", "tiktoken", "anthropic", "pygls", "lsprotocol", "prompt_toolkit", "tree_sitter")


@pytest.mark.parametrize(
    "module", ["ullage.cli", "ullage.core", "ullage.context", "ullage.providers", "ullage.storage"]
)
def test_importing_a_package_loads_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")


def test_a_command_in_a_terminal_loads_no_lsp_types() -> None:
    """They take longer than all the rest of a command's start."""
    code = "import sys, ullage.cli.chatting, ullage.cli.run\nprint('lsprotocol' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "False", "")
