"""Restored files: what a session was working on, put back after a compaction.

Invariant: a restored text was read through the door from this workspace, without a link on the way and without a
second name; it is text, it is no secret by name or by content, and it is at most so many lines and bytes. What was
left out is reported by path and reason, never by content. Filter first, then take the newest: a file that may not
be restored never takes the place of one that may.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice

from ullage.core.errors import Refused
from ullage.workspace.entries import Content
from ullage.workspace.limits import Limits
from ullage.workspace.paths import WorkspacePath
from ullage.workspace.root import WorkspaceRoot


@dataclass(frozen=True, slots=True)
class RecentFile:
    """A file that a session touched: the path as recorded, and the real path of the workspace it was touched in."""

    path: str
    root: str


@dataclass(frozen=True, slots=True)
class RestoredFile:
    """The head of a file as it is now. `cut` when the file goes on beyond `text`."""

    path: str
    text: str
    cut: bool


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A recent file that was not restored. `reason`: a code of the door, or `other_root`, `secret`, `not_text`."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Restoration:
    """The restored files, newest first, and those that were looked at and left out."""

    files: tuple[RestoredFile, ...]
    left_out: tuple[LeftOut, ...]


SECRET_FOLDERS = frozenset({".git", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store"})
SECRET_NAMES = (
    *(".env", ".env.*", "*.env", ".envrc", ".netrc", "_netrc", ".pgpass", ".my.cnf", ".htpasswd"),
    *(".npmrc", ".pypirc", ".git-credentials", ".dockercfg", ".vault-token", "*_history"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.ppk", "*.p12", "*.pfx"),
    *("*.jks", "*.keystore", "*.kdbx", "*.gpg", "*.asc", "*.ovpn", "*.tfstate", "*.tfstate.*", "*.tfvars"),
    *("credentials", "credentials.json", "credentials.y*ml", "credentials.toml", "credentials.ini"),
    *("credentials.csv", "secret", "secret.*", "secrets", "secrets.*", "service*account*.json"),
)
SECRET_CONTENT = re.compile(
    rb"-----BEGIN [A-Z ]{0,40}PRIVATE KEY|\bAKIA[0-9A-Z]{16}\b|\bgh[oprsu]_[A-Za-z0-9]{36}"
    rb"|\bgithub_pat_[A-Za-z0-9_]{22}|\bsk-[A-Za-z0-9_-]{32}|\bxox[abprs]-[A-Za-z0-9-]{10}"
)


def is_secret(path: WorkspacePath) -> bool:
    """Whether a path names a secret: compared without case and invisible characters, as a careless file system
    would compare it."""
    names = [_plain(part) for part in path.parts]
    if SECRET_FOLDERS.intersection(names):
        return True
    return any(fnmatchcase(names[-1], pattern) for pattern in SECRET_NAMES) if names else False


def restore(root: WorkspaceRoot, recent: Iterable[RecentFile], limits: Limits | None = None) -> Restoration:
    """Read back the newest files of this workspace; `recent` is newest first. Blocking.

    Raises:
        Refused: `root_gone`; everything else is a reason in the report.
    """
    limits = limits or root.limits
    files: list[RestoredFile] = []
    left_out: list[LeftOut] = []
    for record in islice(_unique(recent), limits.restored_candidates):
        if len(files) == limits.restored_files:
            break
        match _restore_one(root, record, limits):
            case RestoredFile() as restored:
                if all(other.path != restored.path for other in files):
                    files.append(restored)
            case LeftOut() as left:
                left_out.append(left)
    return Restoration(tuple(files), tuple(left_out))


def _unique(recent: Iterable[RecentFile]) -> Iterator[RecentFile]:
    return iter(dict.fromkeys(recent))


def _restore_one(root: WorkspaceRoot, record: RecentFile, limits: Limits) -> RestoredFile | LeftOut:
    if record.root != root.identity.real:
        return LeftOut(record.path, "other_root")
    try:
        path = root.locate(record.path)
        if is_secret(path):
            return LeftOut(record.path, "secret")
        content = root.read(path, at_most=limits.restored_bytes, hard_links=False)
    except Refused as refused:
        if refused.report.code == "root_gone":
            raise
        return LeftOut(record.path, refused.report.code)
    if SECRET_CONTENT.search(content.data):
        return LeftOut(record.path, "secret")
    return _head(content, limits.restored_lines) or LeftOut(record.path, "not_text")


def text_of(content: Content) -> str | None:
    """A file's bytes as text, without a byte order mark; None for what is none."""
    if b"\0" in content.data:
        return None
    try:
        # A cut may split a character: an unfinished one at the end is not an error, unless the file ends there.
        return codecs.getincrementaldecoder("utf-8-sig")().decode(content.data, final=not content.cut)
    except UnicodeDecodeError:
        return None


def _head(content: Content, max_lines: int) -> RestoredFile | None:
    text = text_of(content)
    if text is None:
        return None
    lines = text.splitlines(keepends=True)
    kept = "".join(lines[:max_lines])
    return RestoredFile(str(content.path), kept, content.cut or len(lines) > max_lines)


def _plain(name: str) -> str:
    folded = unicodedata.normalize("NFKC", name).casefold()
    return "".join(character for character in folded if unicodedata.category(character) != "Cf").rstrip(". ")
