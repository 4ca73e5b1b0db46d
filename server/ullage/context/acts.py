"""What a tool call of a known coding agent did, from its name and arguments alone.

Agents name the same few acts differently. One table knows the names; a tool that stands in none is OTHER and proves
nothing, since a wrong fact is worse than none. Paths stay as the agent wrote them.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from ullage.core.messages import Op, ToolCall, ToolFacts, ToolResult

_NAMES: Final = {
    Op.READ: "read read_file view view_file open_file cat notebookread read_many_files readfile view_image",
    Op.SEARCH: "grep glob search find ls list list_files list_directory search_files search_file_content "
    "codebase_search find_file list_dir grep_search file_search list_code_definition_names search_dir",
    Op.WRITE: "edit write multiedit write_file edit_file create create_file notebookedit str_replace insert "
    "apply_patch replace replace_in_file write_to_file apply_diff patch insert_content undo_edit",
    Op.RUN: "bash shell run_command execute_bash exec_command local_shell run_shell_command execute_command "
    "run_terminal_cmd terminal shell_command container.exec exec",
}
"""Tool names in lower case: Claude Code, codex, pi, OpenHands, SWE-agent, Gemini CLI, Cline, opencode, goose."""

_OPS: Final = {name: op for op, names in _NAMES.items() for name in names.split()}
_EDITORS: Final = {"str_replace_editor", "str_replace_based_edit_tool", "file_editor", "text_editor"}
"""Tools that say in their `command` argument what they do; everything but viewing changes the file."""
_PATHS: Final = ("file_path", "path", "filename", "file", "notebook_path", "absolute_path", "filePath", "target_file")
_COMMANDS: Final = ("command", "cmd", "script")
_PATCHED: Final = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_EXIT: Final = re.compile(
    r"(?:exit(?:ed)?(?: with)?(?: code| status)?|exit_code|returncode)[\"':= ]{1,4}(-?\d{1,3})\b", re.I
)
_EXIT_WITHIN: Final = 400
"""Exit codes are looked for in so many characters at the beginning and the end of an output."""


def facts_of(call: ToolCall, result: ToolResult) -> ToolFacts:
    """What a call and its result prove; `Op.OTHER` without paths or command where the tool is not known."""
    arguments = _object(call.arguments)
    name = call.name.rpartition("__")[2].lower()
    if name in _EDITORS:
        viewing = str(arguments.get("command", "")) in ("view", "open", "")
        return ToolFacts(Op.READ if viewing else Op.WRITE, _paths(arguments, ""))
    op = _OPS.get(name, Op.OTHER)
    match op:
        case Op.READ | Op.WRITE:
            return ToolFacts(op, _paths(arguments, call.arguments if op is Op.WRITE else ""))
        case Op.RUN:
            command = _command(arguments)
            patched = _paths({}, command) if "*** Begin Patch" in command else ()
            code = _exit_code(result)
            return ToolFacts(Op.WRITE if patched else op, patched, command or None, code, _last_line(result, code))
        case _:
            return ToolFacts(op)


def _object(raw: str) -> dict[str, Any]:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _paths(arguments: dict[str, Any], raw: str) -> tuple[str, ...]:
    """Paths in the arguments, and those that a patch in them names."""
    named = [arguments[key] for key in _PATHS if isinstance(arguments.get(key), str)]
    texts = [raw, *(value for value in arguments.values() if isinstance(value, str))]
    named += [path.strip() for text in texts for path in _PATCHED.findall(text)]
    return tuple(dict.fromkeys(path for path in named if path))


def _command(arguments: dict[str, Any]) -> str:
    for key in _COMMANDS:
        value = arguments.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list) and value:
            words = [str(word) for word in value]
            # `["bash", "-lc", "make test"]`: the last word is what was run.
            by_shell = len(words) > 2 and re.fullmatch(r"-\w*c", words[1])
            return words[-1] if by_shell else " ".join(words)
    return ""


def _exit_code(result: ToolResult) -> int | None:
    edges = (result.text[:_EXIT_WITHIN], result.text[-_EXIT_WITHIN:])
    found = next((match for edge in edges if (match := _EXIT.search(edge))), None)
    return int(found[1]) if found else None


def _last_line(result: ToolResult, code: int | None) -> str | None:
    """The last line of a failed command: where most tools say what was wrong."""
    lines = [line for line in result.text.splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines and (result.is_error or code) else None
