"""A workspace with an outside worth stealing, and about a hundred names that try."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from ullage.workspace.openers import Opener, open_beneath, open_walking

CANARY = "CANARY-of-the-outside"

OPENERS: dict[str, Opener] = {"walk": open_walking}
if sys.platform == "linux":
    OPENERS["openat2"] = open_beneath


def build(base: Path) -> Path:
    """`base/ws`, and around it everything that must not be reached; returns the workspace."""
    ws = base / "ws"
    for folder in (ws / "src" / "deep", ws / "docs", base / "outside" / "inner"):
        folder.mkdir(parents=True)
    (ws / "readme.md").write_text("# hello\nneedle here\n")
    (ws / "src" / "a.py").write_text("import os\n# needle\n")
    (ws / "src" / "deep" / "b.py").write_text("b = 1\n")
    for neighbour in ("ws2", "ws-old", "ws.bak", "w", "outside", "outside/inner"):
        (base / neighbour).mkdir(exist_ok=True)
        (base / neighbour / "loot.txt").write_text(CANARY)
    (base / "loot.txt").write_text(CANARY)
    return ws


def add_links(ws: Path) -> None:
    """Links of every kind, all named `link_*`."""
    outside = ws.parent / "outside"
    (ws / "link_file").symlink_to(outside / "loot.txt")
    (ws / "link_dir").symlink_to(outside)
    (ws / "src" / "link_middle").symlink_to(outside)
    (ws / "link_relative").symlink_to("../outside/loot.txt")
    (ws / "link_dangling").symlink_to(outside / "nothing")
    (ws / "link_loop").symlink_to("link_loop")
    (ws / "link_up").symlink_to("..")
    (ws / "link_inside").symlink_to(ws / "readme.md")
    (ws / "link_proc").symlink_to("/proc/self/mem")
    (ws / "link_root").symlink_to("/")
    last = "readme.md"
    for step in range(9):
        (ws / f"link_chain{step}").symlink_to(last)
        last = f"link_chain{step}"


LINKED = (
    *("link_file", "link_dir/loot.txt", "link_dir/inner/loot.txt", "src/link_middle/loot.txt"),
    *("link_relative", "link_dangling", "link_loop", "link_loop/x", "link_up/loot.txt", "link_up/ws2/loot.txt"),
    *("link_inside", "link_proc", "link_root/etc/passwd", "link_chain0", "link_chain8"),
)


def add_odd_files(ws: Path) -> socket.socket:
    """A pipe, a socket and a folder with a file's name."""
    os.mkfifo(ws / "pipe.py")
    (ws / "folder.py").mkdir()
    here = socket.socket(socket.AF_UNIX)
    old = Path.cwd()
    os.chdir(ws)  # a socket's path is at most 108 bytes long
    try:
        here.bind("socket.py")
    finally:
        os.chdir(old)
    return here


_BASE = "{base}"

# (name, codes that are right); `{base}` is the folder around the workspace.
_OUT = ("outside_workspace",)
_BAD = ("bad_path",)
_NONE = ("not_found", "not_a_folder", "bad_path")
NAMES: tuple[tuple[str, tuple[str, ...]], ...] = (
    # climbing
    *((name, _OUT) for name in ("..", "../", "../loot.txt", "../ws2/loot.txt", "../outside/loot.txt")),
    *((name, _OUT) for name in ("src/..", "src/../..", "src/../../loot.txt", "src/../src/../../loot.txt")),
    *((name, _OUT) for name in ("./../loot.txt", ".//..//loot.txt", "src/./../../loot.txt", "a/b/../../..")),
    *((name, _OUT) for name in ("../../../../../../etc/passwd", "src/deep/../../../loot.txt", "../ws/readme.md")),
    *((name, _OUT) for name in ("missing/../../loot.txt", "readme.md/../../loot.txt", "..//", "x/../..")),
    # absolute
    *((name, _OUT) for name in ("/", "//", "///", "/etc/passwd", "//etc/passwd", "/etc", "/tmp", "/.", "/..")),
    *((name, _OUT) for name in ("/proc/self/environ", "/proc/self/cwd", "/dev/zero", "/dev/stdin", "/root")),
    *((f"{_BASE}{rest}", _OUT) for rest in ("", "/", "/loot.txt", "/outside/loot.txt", "/w/loot.txt")),
    *((f"/{_BASE}{rest}", _OUT) for rest in ("/loot.txt", "/ws/readme.md")),
    # siblings that share the workspace's spelling
    *((f"{_BASE}/{name}/loot.txt", _OUT) for name in ("ws2", "ws-old", "ws.bak", "ws/../ws2", "ws/../outside")),
    *((f"{_BASE}/{name}", _OUT) for name in ("ws2", "ws-old", "ws.bak", "ws/..", "ws/../loot.txt", "ws/./../w")),
    # what a shell, a browser or another system would expand
    *((name, _OUT) for name in ("~", "~/", "~/loot.txt", "~root", "~root/x", "$HOME", "$HOME/x", "${HOME}/x")),
    *((name, _OUT) for name in ("$PWD/../loot.txt", "%USERPROFILE%/x", "%HOME%")),
    *((name, _BAD) for name in ("file:///etc/passwd", "file:/etc/passwd", "file:etc", "FILE:///etc", "https://x/y")),
    *((name, _BAD) for name in ("C:/Windows", "C:\\Windows", "c:/x", "\\\\host\\share", "..\\loot.txt")),
    *((name, _BAD) for name in ("src\\..\\..\\loot.txt", "vscode-remote://x/y", "data:text/plain,x")),
    *((name, _NONE) for name in ("%2e%2e/loot.txt", "..%2floot.txt", "%2fetc%2fpasswd", "$(cat x)", "`id`")),
    # characters
    *((name, _BAD) for name in ("", "a\0b", "\0", "readme.md\0", "readme.md\0.png", "../loot.txt\0", "a\nb")),
    *((name, _BAD) for name in ("readme.md\n", "\nreadme.md", "a\rb", "a\tb", "\x1b[2J", "a\x7fb", "\ud800", "a\x85b")),
    *((name, _NONE) for name in (" readme.md", "readme.md ", "readme.md.", " ", "...", "....", ".. ", " ..", "..;")),
    *((name, _NONE) for name in ("．．/loot.txt", "․․/loot.txt", "..∕loot.txt", "‥/loot.txt", "a\u202egnp")),
    *((name, _NONE) for name in ("..\u200b/loot.txt", "\u200b../loot.txt", "readme\u200b.md", "\ufeffreadme.md")),
    # size
    ("a" * 5000, _BAD),
    ("a" * 256, _BAD),
    ("é" * 128, _BAD),
    ("a/" * 2047 + "a", _BAD),
    ("a/" * 127 + "a", _NONE),
    ("../" * 1000 + "etc/passwd", _OUT),
    # not what it is taken for
    *((name, _NONE) for name in ("missing", "src/missing.py", "readme.md/x", "src/a.py/b")),
)
