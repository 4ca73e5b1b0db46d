"""Instruction files are read through the door: no links, no secrets, no more than their size."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ullage.core.context import InstructionFile
from ullage.workspace.instructions import read_instructions
from ullage.workspace.limits import Limits
from ullage.workspace.root import WorkspaceRoot

RULES = "Use tabs.\n"


def look(
    folder: Path, *folders: str, names: tuple[str, ...] = ("AGENTS.md",), known: tuple[str, ...] = (), **limits: int
) -> tuple[InstructionFile, ...]:
    with WorkspaceRoot.open(str(folder), limits=Limits(**limits)) as root:
        return read_instructions(root, folders or (".",), names, known)


def write(folder: Path, path: str = "AGENTS.md", text: str | bytes = RULES) -> None:
    place = folder / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(text if isinstance(text, bytes) else text.encode())


def linked(folder: Path) -> None:
    write(folder, "CLAUDE.md")
    (folder / "AGENTS.md").symlink_to("CLAUDE.md")


def linked_outside(folder: Path) -> None:
    write(folder.parent, "outside.md")
    (folder / "AGENTS.md").symlink_to(folder.parent / "outside.md")


def named_twice(folder: Path) -> None:
    write(folder.parent, "outside.md")
    (folder / "AGENTS.md").hardlink_to(folder.parent / "outside.md")


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a link": (linked, "symlink"),
    "a link that leads out": (linked_outside, "symlink"),
    "a second name": (named_twice, "hard_link"),
    "a folder": (lambda folder: (folder / "AGENTS.md").mkdir(), "not_a_file"),
    "a pipe": (lambda folder: os.mkfifo(folder / "AGENTS.md"), "not_a_file"),
    "no text": (lambda folder: write(folder, text=b"\xff\xfe\x00"), "not_text"),
    "a key in it": (lambda folder: write(folder, text="-----BEGIN RSA PRIVATE KEY-----\n"), "secret"),
}


@pytest.mark.parametrize(("make", "code"), REFUSED.values(), ids=REFUSED)
def test_what_may_not_be_read_is_named_and_nothing_of_it_is_told(
    make: Callable[[Path], object], code: str, tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    make(folder)
    [file] = look(folder)
    assert (file.path, file.problem, file.text, file.sha256) == ("AGENTS.md", code, "", None)
    assert file.why
    assert RULES.strip() not in repr(file)


def test_a_file_is_told_with_its_digest(tmp_path: Path) -> None:
    write(tmp_path, text="\ufeffUse tabs.\n")
    [file] = look(tmp_path)
    digest = hashlib.sha256("\ufeffUse tabs.\n".encode()).hexdigest()
    assert file == InstructionFile("AGENTS.md", RULES, digest)


def test_a_long_file_is_cut(tmp_path: Path) -> None:
    write(tmp_path, text="é" * 100)
    [file] = look(tmp_path, instruction_bytes=101)
    assert (file.text, file.cut) == ("é" * 50, True)


FOLDERS = {
    "nearest first": (("a/b", "a", "."), ("a/b/AGENTS.md", "a/AGENTS.md", "AGENTS.md")),
    "always the root": (("a/b",), ("a/b/AGENTS.md", "AGENTS.md")),
    "each once": (("a", "a", "./a"), ("a/AGENTS.md", "AGENTS.md")),
    "none there": (("c",), ("AGENTS.md",)),
    "not of this workspace": (("../x", "/etc", "a\\b", "a"), ("a/AGENTS.md", "AGENTS.md")),
    "below a file": (("a/AGENTS.md",), ("AGENTS.md",)),
}


@pytest.mark.parametrize(("folders", "expected"), FOLDERS.values(), ids=FOLDERS)
def test_which_folders_are_looked_into(folders: tuple[str, ...], expected: tuple[str, ...], tmp_path: Path) -> None:
    for path in ("AGENTS.md", "a/AGENTS.md", "a/b/AGENTS.md"):
        write(tmp_path, path)
    assert tuple(file.path for file in look(tmp_path, *folders)) == expected


def test_few_folders_are_looked_into(tmp_path: Path) -> None:
    for number in range(5):
        write(tmp_path, f"d{number}/AGENTS.md")
    write(tmp_path)
    found = look(tmp_path, *(f"d{number}" for number in range(5)), instruction_folders=3)
    assert [file.path for file in found] == ["d0/AGENTS.md", "d1/AGENTS.md", "AGENTS.md"]


NAMES = {
    "the first that is there": (("AGENTS.md", "CLAUDE.md"), {"AGENTS.md": "A", "CLAUDE.md": "C"}, ["AGENTS.md"]),
    "the second": (("AGENTS.md", "CLAUDE.md"), {"CLAUDE.md": "C"}, ["CLAUDE.md"]),
    "a blank one is none": (("AGENTS.md", "CLAUDE.md"), {"AGENTS.md": " \n", "CLAUDE.md": "C"}, ["CLAUDE.md"]),
    "no other name": (("AGENTS.md",), {"CLAUDE.md": "C", "agents.txt": "x"}, []),
    "no name": ((), {"AGENTS.md": "A"}, []),
}


@pytest.mark.parametrize(("names", "files", "expected"), NAMES.values(), ids=NAMES)
def test_names(names: tuple[str, ...], files: dict[str, str], expected: list[str], tmp_path: Path) -> None:
    for name, text in files.items():
        write(tmp_path, name, text)
    assert [file.path for file in look(tmp_path, names=names)] == expected


def test_what_is_known_and_not_there_any_more_is_gone(tmp_path: Path) -> None:
    write(tmp_path, "b/AGENTS.md")
    found = look(tmp_path, known=("AGENTS.md", "b/AGENTS.md"))
    assert [(file.path, file.problem) for file in found] == [("b/AGENTS.md", None), ("AGENTS.md", "gone")]


def test_of_a_folder_that_is_gone_nothing_is_said(tmp_path: Path) -> None:
    """A workspace that was moved away for a moment withdraws no instructions."""
    folder = tmp_path / "work"
    write(folder)
    with WorkspaceRoot.open(str(folder)) as root:
        folder.rename(tmp_path / "elsewhere")
        assert read_instructions(root, (".",), ("AGENTS.md",), ("AGENTS.md",)) == ()


@pytest.mark.parametrize("folder", [".git", ".ssh"])
def test_folders_of_secrets_are_not_told_from(folder: str, tmp_path: Path) -> None:
    write(tmp_path, f"{folder}/AGENTS.md")
    [file] = look(tmp_path, folder)
    assert (file.problem, file.text) == ("secret", "")
