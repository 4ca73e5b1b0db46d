"""Confining a process to what it may write, by the kernel: Landlock, and a network namespace of its own.

Invariant: a process that was confined, and everything it starts, can write below the given folders and nowhere else,
sends no signal to a process outside (where the kernel has that), and reaches no network if so asked; what cannot be
had raises, so that nothing runs that is less confined than was said.

Reading is not confined. `keeper.py` imports this by its file's name, so it needs the standard library only.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""System calls; the same numbers on every architecture."""
_VERSION, _PATH_BENEATH = 1, 1
_WRITE_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 13, 1 << 14
_TREE = sum(1 << bit for bit in range(4, 13))
"""Removing and making every kind of entry."""
_TCP = 3
_SCOPES = 3
"""Abstract sockets and signals."""
_NO_NEW_PRIVS = 38
_NEWNET, _NEWUSER = 0x40000000, 0x10000000
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")


def landlock() -> int:
    """Version of the kernel's Landlock; 0 where there is none."""
    if not sys.platform.startswith("linux"):
        return 0
    return max(0, int(ctypes.CDLL(None).syscall(CREATE_RULESET, None, 0, _VERSION)))


def confine(writable: list[str], network: bool) -> None:
    """Confine this process for good. Folders that are not there are left out.

    Raises:
        OSError: the kernel refuses.
    """
    if not network:
        _leave_network()
    version = landlock()
    if version == 0:
        raise OSError("the kernel has no Landlock any more")
    rights = _TREE | _WRITE_FILE | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    words = (rights, 0 if network or version < 4 else _TCP, _SCOPES if version >= 6 else 0)
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = _call(CREATE_RULESET, (ctypes.c_uint64 * 3)(*words), size, 0)
    for path in (*writable, *_DEVICES):
        _allow(ruleset, path, rights)
    _check(ctypes.CDLL(None, use_errno=True).prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))
    _call(RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(os.fstat(opened).st_mode):
        rights &= _WRITE_FILE | _TRUNCATE
    # Packed: eight bytes of rights, four of descriptor.
    rule = rights.to_bytes(8, sys.byteorder) + opened.to_bytes(4, sys.byteorder)
    _call(ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
    os.close(opened)


def _leave_network() -> None:
    """Into a network that holds nothing. Who is not root needs a user namespace too, and stays themself in it."""
    user, group = os.getuid(), os.getgid()
    library = ctypes.CDLL(None, use_errno=True)
    if user == 0 and library.unshare(_NEWNET) == 0:
        return
    _check(library.unshare(_NEWUSER | _NEWNET))
    for name, content in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        opened = os.open(f"/proc/self/{name}", os.O_WRONLY)
        os.write(opened, content.encode())
        os.close(opened)


def _call(number: int, *arguments: object) -> int:
    return _check(ctypes.CDLL(None, use_errno=True).syscall(number, *arguments))


def _check(result: int) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"the kernel refuses to confine it ({os.strerror(error)})")
    return result


if __name__ == "__main__":  # a try: whether this process can leave the network
    _leave_network()
