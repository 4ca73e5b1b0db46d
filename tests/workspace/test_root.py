"""The door: what it opens, what it refuses, and that it never leaves its root."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.workspace.hostile import CANARY, LINKED, NAMES, OPENERS, add_links, add_odd_files

from ullage.core.errors import Refused
from ullage.workspace.entries import Kind
from ullage.workspace.limits import Limits
from ullage.workspace.paths import WorkspacePath, parse_path, shown
from ullage.workspace.root import WorkspaceRoot


def check_refused(act: Callable[[], object], codes: tuple[str, ...]) -> Refused:
    with pytest.raises(Refused) as caught:
        act()
    report = caught.value.report
    assert report.code in codes
    assert report.hint and CANARY not in report.message
    return caught.value


def read(root: WorkspaceRoot, name: str, at_most: int = 1000) -> bytes:
    return root.read(root.locate(name), at_most=at_most).data


@pytest.mark.parametrize(("name", "codes"), NAMES, ids=lambda value: ascii(value)[:40])
def test_hostile_names(door: WorkspaceRoot, name: str, codes: tuple[str, ...]) -> None:
    """P1: one typed error, nothing read, whatever the operation."""
    name = name.replace("{base}", str(Path(door.identity.real).parent))
    check_refused(lambda: read(door, name), codes)
    check_refused(lambda: door.list(door.locate(name)), codes)
    check_refused(lambda: door.stat(door.locate(name)), codes)


@pytest.mark.parametrize(
    "name", ["readme.md", "./readme.md", ".//readme.md", "src//..a", "{ws}/readme.md", "{given}/readme.md"]
)
def test_friendly_names(ws: Path, name: str) -> None:
    """Relative, or absolute below the root as given or as resolved; a name may begin with dots."""
    (ws / "src" / "..a").write_text("# hello\n")
    given = ws.parent / "alias"
    given.symlink_to(ws)
    with WorkspaceRoot.open(str(given)) as root:
        assert read(root, name.format(ws=ws, given=given)).startswith(b"# hello")


@pytest.mark.parametrize("name", LINKED)
def test_links_are_refused(door: WorkspaceRoot, ws: Path, name: str) -> None:
    """P2, bugs row 52: no link is followed, inside or outside, in any place; the refusal says where it points."""
    add_links(ws)
    link = name.split("/")[0] if name.startswith("link") else "src/link_middle"
    for act in (read, lambda root, path: root.list(root.locate(path)), lambda root, path: root.stat(root.locate(path))):
        refused = check_refused(lambda act=act: act(door, name), ("symlink",))
        assert f"'{link}' is a link to '{os.readlink(ws / link)}'" in refused.report.message


def test_openers_agree_without_explanation(ws: Path) -> None:
    """The guard is the opener itself, not the look at the names that explains its refusal."""
    add_links(ws)
    descriptor = os.open(ws, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for opener in OPENERS.values():
            for name in LINKED:
                with pytest.raises(OSError) as caught:
                    opener(descriptor, tuple(name.split("/")), os.O_RDONLY | os.O_NONBLOCK)
                assert caught.value.errno in (errno.ELOOP, errno.ENOTDIR)
    finally:
        os.close(descriptor)


def test_root_behind_a_link_works(ws: Path) -> None:
    """P2: a workspace opened through a link is resolved once, and is the same workspace."""
    alias = ws.parent / "alias"
    alias.symlink_to(ws)
    with WorkspaceRoot.open(str(alias)) as linked, WorkspaceRoot.open(str(ws)) as plain:
        assert linked.identity == plain.identity
        assert read(linked, "src/a.py").startswith(b"import os")
        alias.unlink()
        alias.symlink_to(ws.parent / "outside")
        assert read(linked, "src/a.py").startswith(b"import os")
        check_refused(lambda: read(linked, "loot.txt"), ("not_found",))


@pytest.mark.parametrize("name", ["pipe.py", "socket.py", "folder.py"])
def test_only_regular_files(door: WorkspaceRoot, ws: Path, name: str) -> None:
    """P6: a pipe nobody writes to, a socket, a folder named like a file: refused, and opening never waits."""
    with add_odd_files(ws):
        check_refused(lambda: read(door, name), ("not_a_file",))
        kinds = {entry.path.name: entry.kind for entry in door.list().entries}
    assert (kinds["pipe.py"], kinds["socket.py"], kinds["folder.py"]) == (Kind.OTHER, Kind.OTHER, Kind.FOLDER)


def test_hard_links(door: WorkspaceRoot, ws: Path) -> None:
    """P7: a second name is seen; recovery's way of opening refuses it."""
    (ws / "hard.txt").hardlink_to(ws.parent / "loot.txt")
    path = door.locate("hard.txt")
    assert door.read(path, at_most=10).stat.links == 2
    check_refused(lambda: door.read(path, at_most=10, hard_links=False), ("hard_link",))


def test_size_cap_is_judged_before_reading(ws: Path) -> None:
    """A sparse file of 2 GB is refused by its size, not read."""
    with (ws / "huge").open("wb") as file:
        file.truncate(2 << 30)
    with WorkspaceRoot.open(str(ws)) as root:
        check_refused(lambda: read(root, "huge"), ("too_large",))


def test_content_says_when_it_is_cut(door: WorkspaceRoot) -> None:
    path = door.locate("readme.md")
    assert [door.read(path, at_most=n).cut for n in (0, 5, 19, 20, 21)] == [True, True, True, False, False]


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM])
def test_falls_back_when_the_call_is_refused(ws: Path, number: int) -> None:
    """Old kernels and some sandboxes refuse openat2: the walk takes over, once and for all, and is as strict."""
    calls: list[tuple[str, ...]] = []

    def refuse(_root: int, parts: tuple[str, ...], _flags: int) -> int:
        calls.append(parts)
        raise OSError(number, "refused")

    add_links(ws)
    with WorkspaceRoot.open(str(ws), opener=refuse) as root:
        assert read(root, "src/a.py").startswith(b"import os")
        check_refused(lambda: read(root, "link_file"), ("symlink",))
    assert calls == [("src", "a.py")]


@pytest.mark.parametrize("how", ["removed", "replaced", "replaced by a link", "closed"])
def test_root_gone(door: WorkspaceRoot, ws: Path, how: str) -> None:
    """P12: the next operation says so, and reads nothing from what stands there now."""
    if how == "closed":
        door.close()
    else:
        ws.rename(ws.parent / "moved")
    if how == "replaced":
        ws.mkdir()
        (ws / "readme.md").write_text(CANARY)
    if how == "replaced by a link":
        ws.symlink_to(ws.parent / "moved")
    for act in (lambda: read(door, "readme.md"), door.list, lambda: door.stat(WorkspacePath())):
        check_refused(act, ("root_gone",))


def test_identities_never_cross(tmp_path: Path) -> None:
    """P9: folders whose names a character swap would merge are different workspaces."""
    names = ["a-b/c", "a/b-c", "my_proj", "my-proj", "漢字", "日本"]
    for name in names:
        (tmp_path / name).mkdir(parents=True)
    roots = [WorkspaceRoot.open(str(tmp_path / name)) for name in names]
    try:
        assert len({root.identity for root in roots}) == len({root.identity.real for root in roots}) == len(names)
        for root in roots:
            for other in roots:
                if other is not root:
                    check_refused(lambda r=root, o=other: r.locate(f"{o.identity.real}/x"), ("outside_workspace",))
    finally:
        for root in roots:
            root.close()


@pytest.mark.parametrize(("name", "code"), [("nothing", "not_found"), ("readme.md", "not_a_folder")])
def test_opening_a_root_that_is_none(ws: Path, name: str, code: str) -> None:
    check_refused(lambda: WorkspaceRoot.open(str(ws / name)), (code,))


def test_no_descriptor_stays_open(door: WorkspaceRoot, ws: Path) -> None:
    """Every way out, good or bad, closes what it opened."""
    add_links(ws)
    before = sorted(os.listdir("/dev/fd"))
    for name in ("readme.md", "src", "missing/x", "link_dir/loot.txt", "src/a.py/x"):
        for act in (
            read,
            lambda root, path: root.list(root.locate(path)),
            lambda root, path: root.stat(root.locate(path)),
        ):
            try:
                act(door, name)
            except Refused:
                pass
    assert sorted(os.listdir("/dev/fd")) == before


def test_folder_caps_and_odd_names(ws: Path) -> None:
    """A folder is cut at its limit; a name that is not UTF-8 is counted and not offered."""
    (Path(os.fsdecode(os.fsencode(ws) + b"/caf\xe9"))).write_text("x")
    with WorkspaceRoot.open(str(ws)) as root:
        assert root.list().unnamed == 1
    with WorkspaceRoot.open(str(ws), limits=Limits(folder_entries=2)) as root:
        folder = root.list()
        assert folder.cut and len(folder.entries) == 2


def test_names_are_shown_escaped() -> None:
    """P8: what turns text round or cannot be seen never stands bare in a message."""
    assert shown("a\u202eb\u200bc\x1b\ud800é") == "a\\u202eb\\u200bc\\x1b\\ud800é"


def test_a_root_of_slash_covers_everything() -> None:
    assert str(parse_path("/etc/hosts", ("/",))) == "etc/hosts"
