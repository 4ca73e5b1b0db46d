"""Restored files: filter first, then the newest five; nothing linked, outside, secret, binary or long."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.workspace.hostile import CANARY, LINKED, NAMES, add_links, add_odd_files

from ullage.core.errors import Refused
from ullage.workspace.limits import Limits
from ullage.workspace.paths import WorkspacePath
from ullage.workspace.restore import LeftOut, RecentFile, RestoredFile, is_secret, restore
from ullage.workspace.root import WorkspaceRoot


def recent(root: WorkspaceRoot, *names: str) -> list[RecentFile]:
    return [RecentFile(name, root.identity.real) for name in names]


def check_left_out(root: WorkspaceRoot, name: str, *reasons: str) -> None:
    done = restore(root, recent(root, name))
    assert done.files == ()
    assert [left.path for left in done.left_out] == [name]
    assert done.left_out[0].reason in reasons
    assert CANARY not in repr(done)


@pytest.mark.parametrize(("name", "codes"), NAMES, ids=lambda value: ascii(value)[:40])
def test_hostile_names(door: WorkspaceRoot, name: str, codes: tuple[str, ...]) -> None:
    """P1 for recovery."""
    check_left_out(door, name.replace("{base}", str(Path(door.identity.real).parent)), *codes)


@pytest.mark.parametrize("name", LINKED)
def test_links(door: WorkspaceRoot, ws: Path, name: str) -> None:
    """P2, W-D5: a link in any component leaves the file out, wherever it points."""
    add_links(ws)
    check_left_out(door, name, "symlink")


def test_swap_between_read_and_recovery(door: WorkspaceRoot, ws: Path) -> None:
    """P11: read in one turn, replaced by a link before the compaction."""
    touched = recent(door, "src/a.py")
    assert restore(door, touched).files[0].text.startswith("import os")
    (ws / "src" / "a.py").unlink()
    (ws / "src" / "a.py").symlink_to(ws.parent / "loot.txt")
    assert restore(door, touched).left_out == (LeftOut("src/a.py", "symlink"),)


def test_filter_first_then_limit(door: WorkspaceRoot, ws: Path) -> None:
    """P10, bugs row 50, W-D3: ten files in the history, three may come back, the others are named with reasons."""
    add_links(ws)
    (ws / "huge").touch()
    with (ws / "huge").open("r+b") as file:
        file.truncate(2 << 30)
    other = str(ws.parent / "ws2")
    history = [
        RecentFile("loot.txt", other),
        *recent(door, "huge", "../loot.txt", "link_file", "src/a.py"),
        RecentFile("readme.md", other),
        *recent(door, str(ws.parent / "loot.txt"), "deleted.py", "./src//a.py", f"{ws}/readme.md", "src/deep/b.py"),
    ]
    done = restore(door, history)
    assert [file.path for file in done.files] == ["src/a.py", "readme.md", "src/deep/b.py"]
    assert [left.reason for left in done.left_out] == [
        *("other_root", "too_large", "outside_workspace", "symlink", "other_root", "outside_workspace", "not_found"),
    ]
    assert CANARY not in repr(done)


def test_newest_five_that_may(door: WorkspaceRoot, ws: Path) -> None:
    """W-D3: unsuitable or repeated files take no place."""
    for number in range(8):
        (ws / f"f{number}").write_text(str(number))
    done = restore(door, recent(door, "gone", "f0", ".env", "f1", "f0", "./f1", "f2", "f3", "f4", "f5", "f6"))
    assert [file.path for file in done.files] == ["f0", "f1", "f2", "f3", "f4"]
    assert [left.path for left in done.left_out] == ["gone", ".env"]


CAP_ROWS = {
    "whole": (b"a\nb\n", RestoredFile("f", "a\nb\n", False)),
    "empty": (b"", RestoredFile("f", "", False)),
    "200 lines": (b"x\n" * 200, RestoredFile("f", "x\n" * 200, False)),
    "201 lines": (b"x\n" * 201, RestoredFile("f", "x\n" * 200, True)),
    "one minified line": (b"x" * 8_000_000, RestoredFile("f", "x" * 8192, True)),
    "cut inside a character": ("é".encode() * 5000, RestoredFile("f", "é" * 4096, True)),
    "cut inside a character, odd": (b"a" + "é".encode() * 5000, RestoredFile("f", "a" + "é" * 4095, True)),
    "byte order mark": (b"\xef\xbb\xbfa\n", RestoredFile("f", "a\n", False)),
    "latin-1": (b"caf\xe9\n", None),
    "unfinished character at the end": (b"caf\xc3", None),
    "binary": (b"\x7fELF\0\0", None),
    "utf-16": ("a\n".encode("utf-16"), None),
}


@pytest.mark.parametrize("row", CAP_ROWS)
def test_caps(door: WorkspaceRoot, ws: Path, row: str) -> None:
    """W-D1: lines and bytes are both capped; what is not text stays out."""
    content, expected = CAP_ROWS[row]
    (ws / "f").write_bytes(content)
    if expected is None:
        check_left_out(door, "f", "not_text")
    else:
        assert restore(door, recent(door, "f")).files == (expected,)


SECRETS = (
    *(".env", ".env.local", "src/.ENV", "prod.env", ".envrc", "id_rsa", "keys/id_ed25519", "id_rsa.bak", "a.pem"),
    *("A.PEM", "tls/server.key", ".git/config", "sub/.git/HEAD", ".GIT/config", ".ssh/known_hosts", ".aws/x"),
    *("credentials", "credentials.json", ".netrc", ".npmrc", ".pypirc", "secrets.yaml", "main.tfstate", ".e\u200bnv"),
    *(".env.", ".bash_history", "service-account-prod.json", "a.p12", ".docker/config.json", "Ｉd_rsa"),
)
NO_SECRETS = (
    "environment.py",
    "src/credentials.py",
    "keys.md",
    "pem.txt",
    ".github/x",
    ".gitignore",
    "key.py",
    "monkey",
)


@pytest.mark.parametrize("name", SECRETS)
def test_secrets_by_name(door: WorkspaceRoot, ws: Path, name: str) -> None:
    """W-D2, P8: without regard to case and to characters that cannot be seen."""
    (ws / name).parent.mkdir(parents=True, exist_ok=True)
    (ws / name).write_text(CANARY)
    check_left_out(door, name, "secret")


def test_no_secrets_by_name() -> None:
    assert [name for name in NO_SECRETS if is_secret(WorkspacePath(tuple(name.split("/"))))] == []


@pytest.mark.parametrize(
    "content", ["-----BEGIN {} PRIVATE KEY-----".format("RSA"), "AKIA" + "A" * 16, "x = 'ghp_" + "a" * 36 + "'"]
)
def test_secrets_by_content(door: WorkspaceRoot, ws: Path, content: str) -> None:
    """W-D2: a key in a file of an innocent name."""
    (ws / "notes.txt").write_text(f"first line\n{content}\n")
    check_left_out(door, "notes.txt", "secret")


def test_hard_links_and_odd_files(door: WorkspaceRoot, ws: Path) -> None:
    """P6, P7."""
    (ws / "hard.txt").hardlink_to(ws.parent / "loot.txt")
    check_left_out(door, "hard.txt", "hard_link")
    with add_odd_files(ws):
        for name in ("pipe.py", "socket.py", "folder.py"):
            check_left_out(door, name, "not_a_file")


def test_root_gone_is_an_error(door: WorkspaceRoot, ws: Path) -> None:
    """P12: an empty restoration would hide it."""
    ws.rename(ws.parent / "moved")
    with pytest.raises(Refused):
        restore(door, recent(door, "src/a.py"))


def test_candidates_are_bounded(door: WorkspaceRoot) -> None:
    history = recent(door, *(f"gone{number}" for number in range(50)), "readme.md")
    assert restore(door, history, Limits(restored_candidates=50)).files == ()
