"""Reading instruction files (such as AGENTS.md) through the door.

Invariant: what is told to a model was read from this workspace without a link on the way and without a second name; it
is text and holds nothing that looks like a secret. What is there and may not be read is named with the reason, never
with its content.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from ullage.core.context import InstructionFile
from ullage.core.errors import Refused
from ullage.core.messages import clean_text
from ullage.workspace.paths import ROOT, WorkspacePath
from ullage.workspace.restore import SECRET_CONTENT, is_secret, text_of
from ullage.workspace.root import WorkspaceRoot

_ABSENT = ("not_found", "not_a_folder", "bad_path", "outside_workspace")
"""Codes of the door for a file that is not there, or a folder that no file of this workspace can be in."""


def read_instructions(
    root: WorkspaceRoot, folders: Iterable[str], names: Sequence[str], known: Sequence[str] = ()
) -> tuple[InstructionFile, ...]:
    """The instruction files of these folders, nearest first as they are given, and of the files that are `known`.

    Of one folder the first of `names` that is there counts. A known file that is not among them has the problem
    `gone`. Nothing at all where the folder of the workspace is gone. Blocking.
    """
    nearest = [*islice(folders, root.limits.instruction_folders - 1), *(path.rpartition("/")[0] for path in known), ""]
    try:
        found = [file for folder in _unique(root, nearest) if (file := _first(root, folder, names))]
    except Refused:
        return ()
    there = {file.path for file in found}
    gone = [InstructionFile(path, problem="gone", why="it is not there any more.") for path in known]
    return (*found, *(file for file in gone if file.path not in there))


def _unique(root: WorkspaceRoot, folders: Iterable[str]) -> Iterator[WorkspacePath]:
    """The folders as places of this workspace, each once; a path that leads nowhere in it is passed over."""
    seen: set[WorkspacePath] = set()
    for folder in folders:
        try:
            place = root.locate(folder) if folder else ROOT
        except Refused:
            continue
        if place not in seen:
            seen.add(place)
            yield place


def _first(root: WorkspaceRoot, folder: WorkspacePath, names: Iterable[str]) -> InstructionFile | None:
    """The file of the first name that is there; one without a word is as good as none."""
    for name in names:
        try:
            file = _read(root, root.locate(str(folder.child(name))))
        except Refused as refused:
            report = refused.report
            if report.code == "root_gone":
                raise
            if report.code in _ABSENT:
                continue
            return InstructionFile(str(folder.child(name)), problem=report.code, why=f"{report.message} {report.hint}")
        if file.text.strip() or file.problem:
            return file
    return None


def _read(root: WorkspaceRoot, path: WorkspacePath) -> InstructionFile:
    name = str(path)
    content = root.read(path, at_most=root.limits.instruction_bytes, hard_links=False)
    if is_secret(path):
        return InstructionFile(name, problem="secret", why="it has the name of a secret, or its folder has.")
    if SECRET_CONTENT.search(content.data):
        return InstructionFile(name, problem="secret", why="it holds what looks like a secret.")
    text = text_of(content)
    if text is None:
        return InstructionFile(name, problem="not_text", why="it is not text in UTF-8.")
    digest = hashlib.sha256(content.data).hexdigest()
    return InstructionFile(name, clean_text(text), digest, content.cut)
