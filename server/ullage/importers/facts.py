"""What a recorded tool call proves: other agents' tool names and arguments as our `ToolFacts`."""

from __future__ import annotations

import json
import posixpath
import re
from typing import Final

from ullage.core.messages import Op, ToolFacts, clean_text
from ullage.core.telling import counted_tests, newest_error
from ullage.importers.records import Record

OPS: Final = {
    # Claude Code
    "Bash": Op.RUN,
    "BashOutput": Op.OTHER,
    "Read": Op.READ,
    "NotebookRead": Op.READ,
    "Edit": Op.WRITE,
    "MultiEdit": Op.WRITE,
    "Write": Op.WRITE,
    "NotebookEdit": Op.WRITE,
    "Grep": Op.SEARCH,
    "Glob": Op.SEARCH,
    "LS": Op.SEARCH,
    "WebSearch": Op.SEARCH,
    "WebFetch": Op.SEARCH,
    # codex
    "exec_command": Op.RUN,
    "shell": Op.RUN,
    "shell_command": Op.RUN,
    "local_shell": Op.RUN,
    "apply_patch": Op.WRITE,
    "view_image": Op.READ,
    "read_file": Op.READ,
    "list_dir": Op.SEARCH,
    "grep_files": Op.SEARCH,
    "web_search": Op.SEARCH,
    "tool_search": Op.SEARCH,
    # pi
    "bash": Op.RUN,
    "read": Op.READ,
    "edit": Op.WRITE,
    "write": Op.WRITE,
    "grep": Op.SEARCH,
    "find": Op.SEARCH,
    "ls": Op.SEARCH,
}
"""Tool name to what it does; any other name is OTHER."""

_PATHS: Final = ("file_path", "filePath", "notebook_path", "path", "dir_path")
_COMMANDS: Final = ("command", "cmd")
_EXIT: Final = re.compile(
    r"^(?:Process exited with code|Exit code:?|Command exited with code) (-?\d{1,9})\b", re.MULTILINE
)
_PATCHED: Final = re.compile(r"^\*\*\* (?:Add File|Update File|Delete File|Move to): (.+?)\s*$", re.MULTILINE)


def facts_of(name: str, arguments: str, output: str, is_error: bool, root: str) -> ToolFacts:
    """The facts of one call and its output. `arguments` is JSON text, or a patch; `root` the session's folder."""
    op, given = OPS.get(name, Op.OTHER), _object(arguments)
    command = _command(given) if op is Op.RUN else None
    patch = arguments if name == "apply_patch" else command or ""
    patched = tuple(_PATCHED.findall(patch)) if "*** Begin Patch" in patch else ()
    named = [given[key] for key in _PATHS if isinstance(given.get(key), str) and given[key]]
    paths = patched or (tuple(named[:1]) if op is not Op.RUN else ())
    code = _exit_code(output, is_error) if op is Op.RUN else None
    wrong = is_error or bool(code)
    return ToolFacts(
        Op.WRITE if patched else op,
        tuple(dict.fromkeys(_relative(path, root) for path in paths)),
        clean_text(command) if command is not None else None,
        code,
        _detail(output, wrong, op),
    )


def _object(arguments: str) -> Record:
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _command(given: Record) -> str | None:
    for key in _COMMANDS:
        value = given.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            # A shell with its script: the script is the command.
            return value[2] if len(value) == 3 and value[1] in ("-c", "-lc") else " ".join(value)
    return None


def _exit_code(output: str, is_error: bool) -> int | None:
    """As the output says; a command that is still running has none, and one that just succeeded has 0."""
    found = _EXIT.search(output[:2_000]) or _EXIT.search(output[-500:])
    if found:
        return int(found[1])
    return None if is_error or "Process running with session" in output[:300] else 0


def _relative(path: str, root: str) -> str:
    """Relative to the root with `/`; a path outside stays absolute."""
    clean = posixpath.normpath(clean_text(path).replace("\\", "/"))
    base = root.rstrip("/") + "/"
    return clean.removeprefix(base) if clean.startswith(base) else clean


def _detail(output: str, wrong: bool, op: Op) -> str | None:
    """One line: the newest error of what went wrong, the test count of a command that ran tests."""
    if wrong and (error := newest_error(output)) is not None:
        return error
    return counted_tests(output) if op is Op.RUN else None
