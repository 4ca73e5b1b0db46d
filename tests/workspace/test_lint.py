"""P14: nobody but the door opens user files."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SERVER = Path(__file__).parents[2] / "server" / "ullage"
DOOR = {SERVER / "workspace" / name for name in ("root.py", "openers.py", "writing.py", "entries.py")}
BEHIND = ("ullage.workspace.openers", "ullage.workspace.writing")
"""What the door is made of: nobody goes round it."""
KEEPERS = {SERVER / "workspace" / "keeper.py", SERVER / "workspace" / "confine.py"}
"""Run in a command's place, before it: they open what is the system's, and the folders a command may write in, and read
no file of a user's."""
PACKAGES = ("workspace", "tools", "sessions")

MODULES = {"io", "shutil", "glob", "tempfile", "mmap", "linecache", "fileinput", "codecs.open"}
OS_CALLS = {
    *("open", "fdopen", "scandir", "listdir", "walk", "fwalk", "stat", "lstat", "access", "readlink", "chdir"),
    *("rename", "replace", "remove", "unlink", "rmdir", "mkdir", "makedirs", "link", "symlink", "truncate", "utime"),
    *("realpath", "exists", "lexists", "isfile", "isdir", "islink", "getsize", "getmtime", "expanduser"),
}
PATH_METHODS = {
    *("read_text", "read_bytes", "write_text", "write_bytes", "iterdir", "rglob", "resolve", "is_file", "is_dir"),
    *("is_symlink", "touch", "hardlink_to", "symlink_to", "expanduser"),
}


def offences(source: str) -> list[str]:
    """Calls and imports by which a module could reach a file without the door."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id="open")):
                found.append("open()")
            case ast.Attribute(value=ast.Name(id="os"), attr=name) if name in OS_CALLS:
                found.append(f"os.{name}")
            case ast.Attribute(value=ast.Attribute(attr="path"), attr=name) if name in OS_CALLS:
                found.append(f"os.path.{name}")
            case ast.Attribute(attr=name) if name in PATH_METHODS:
                found.append(f".{name}")
            case ast.Import(names=names):
                found += [f"import {name.name}" for name in names if name.name in MODULES]
            case ast.ImportFrom(module=("os" | "os.path") as module, names=names):
                found += [f"from {module} import {name.name}" for name in names if name.name in OS_CALLS]
            case ast.ImportFrom(module=str(module)) if module in MODULES or module in BEHIND:
                found.append(f"from {module}")
            case ast.ImportFrom(module="ullage.workspace", names=names):
                found += [f"from ullage.workspace import {n.name}" for n in names if n.name in ("openers", "writing")]
            case _:
                pass
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_only_the_door_opens(package: str) -> None:
    files = [path for path in (SERVER / package).rglob("*.py") if path not in DOOR | KEEPERS]
    assert files
    assert {path.name: found for path in files if (found := offences(path.read_text()))} == {}


@pytest.mark.parametrize(
    "source",
    [
        "open('x')",
        "import os\nos.open('x', 0)",
        "import os\nos.path.realpath('x')",
        "from os import scandir",
        "from os.path import realpath",
        "import shutil",
        "from glob import glob",
        "Path('x').read_text()",
        "Path('x').resolve()",
        "import io",
        "from ullage.workspace.openers import open_walking",
        "from ullage.workspace.writing import put",
        "from ullage.workspace import writing",
    ],
)
def test_the_lint_sees(source: str) -> None:
    assert offences(source)


def test_the_door_would_be_seen() -> None:
    assert all(offences(module.read_text()) for module in DOOR)
