"""Which calls may run: what changes nothing does; everything else is decided by mode, grants and a person.

Invariants. Every call of a step is decided before any runs. What a protected path names is asked for in every mode,
whatever was granted. A grant covers writing files that are not protected, or one command to the letter, in the session
it was given in and on the folder that stood there then.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from ullage.core.grants import PermissionGranted
from ullage.core.inputs import Allowed, Denied, Waiting
from ullage.core.messages import Op, ToolCall
from ullage.core.ports import Intent, ToolOutcome

PLAN = Denied("", "permission mode `plan` allows reading only.")


def decide(
    call: ToolCall, intent: Intent | ToolOutcome, mode: str | None, grants: Iterable[PermissionGranted], home: str = ""
) -> Allowed | Denied | Waiting:
    """Decide on a call that may change something; `mode` None is `ask`, `home` is our own folder as seen from the root.

    One that would only give an error is denied with it: what it would do later nobody has seen.
    """
    if mode == "plan":
        return Denied(call.call_id, PLAN.reason)
    if isinstance(intent, ToolOutcome):
        return Denied(call.call_id, intent.text)
    if any(why_careful(path, home) for path in intent.paths):
        return Waiting(call.call_id)
    if mode in ("edits", "auto") and intent.op is Op.WRITE:
        return Allowed(call.call_id)
    if grant_for(intent) in grants:
        return Allowed(call.call_id)
    return Waiting(call.call_id)


def grant_for(intent: Intent) -> PermissionGranted:
    """What a person allows who allows this for the session."""
    return PermissionGranted(intent.op, intent.rule)


# --- protected paths ---

# fmt: off
_FOLDERS = {
    ".git", ".hg", ".svn", ".jj", ".vscode", ".idea", ".vs", ".zed", ".cursor", ".claude", ".codex", ".gemini",
    ".ullage", ".github", ".gitlab", ".circleci", ".husky", ".githooks", ".devcontainer", ".ssh", ".direnv",
}
"""Folders whose files make other programs do things: version control, editors, agents, hooks, pipelines."""
_FILES = {
    ".gitmodules", ".gitconfig", ".gitattributes", ".envrc", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout",
    ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".kshrc", ".cshrc", ".tcshrc", ".inputrc", ".npmrc",
    ".pre-commit-config.yaml", ".gitlab-ci.yml", ".travis.yml", "azure-pipelines.yml", "jenkinsfile", ".mcp.json",
    "agents.md", "agents.override.md", "claude.md", "gemini.md", "sitecustomize.py", "usercustomize.py",
}
"""Files that do: shell start-up, hooks, pipelines, and what agents are told."""
# fmt: on
_ENDS = (".code-workspace", ".pth")


def why_careful(path: str, home: str = "") -> str | None:
    """Why a path is always asked for, None where it is not.

    Spelling is no way round it: case, invisible characters, width and trailing dots are no difference, since file
    systems do not see them either.
    """
    names = [_plain(name) for name in path.split("/")]
    if home and (f"{path}/").startswith(f"{home}/"):
        return "it is where sessions are kept"
    for name in names:
        if name in _FOLDERS:
            return f"{name} makes other programs do things"
    if names[-1] in _FILES or names[-1].endswith(_ENDS):
        return f"{names[-1]} makes other programs do things"
    return None


def _plain(name: str) -> str:
    visible = "".join(letter for letter in name if unicodedata.category(letter) != "Cf")
    return unicodedata.normalize("NFKC", visible).casefold().rstrip(". ")
