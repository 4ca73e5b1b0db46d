"""From names to descriptors: the two ways of opening something below a folder without following a link.

Invariant: what a descriptor from here names was reached from the given one through real folders only. On Linux one
`openat2(BENEATH | NO_SYMLINKS | NO_MAGICLINKS)` checks and opens in one step; elsewhere, and where that call is
refused, each name is opened in turn with `O_NOFOLLOW` from the descriptor of the one before.

What would break it: checking a path and then opening it by name (somebody swaps a folder for a link in between), or
resolving `..`. Only the door's own modules may import this one.
"""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable
from typing import Any

Opener = Callable[[int, tuple[str, ...], int], int]
"""(root descriptor, names, flags) -> descriptor of what the names lead to; raises OSError."""

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# O_NONBLOCK: opening a pipe must not wait for a writer; it means nothing for regular files.
FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_SYS_OPENAT2 = 437  # the same on x86_64 and aarch64 (linux/unistd.h)
_RESOLVE = 0x08 | 0x04 | 0x02  # BENEATH | NO_SYMLINKS | NO_MAGICLINKS (linux/openat2.h)
_TRIES = 100  # the kernel answers EAGAIN when a rename raced the lookup


def open_beneath(root: int, parts: tuple[str, ...], flags: int) -> int:
    """Open by one `openat2` call, which checks and opens in one step (Linux 5.6 and later)."""
    call, how_type = _openat2()
    how = how_type(flags, 0, _RESOLVE)
    path = os.fsencode("/".join(parts) or ".")
    for _ in range(_TRIES):
        descriptor, code = call(root, path, how)
        if descriptor >= 0:
            return int(descriptor)
        if code not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(code, os.strerror(code))


@functools.cache
def _openat2() -> tuple[Callable[[int, bytes, Any], tuple[int, int]], Any]:
    import ctypes  # only where a workspace is opened on Linux

    class OpenHow(ctypes.Structure):
        _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))

    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)

    def call(root: int, path: bytes, how: OpenHow) -> tuple[int, int]:
        result = syscall(_SYS_OPENAT2, root, path, ctypes.addressof(how), ctypes.sizeof(how))
        return result, ctypes.get_errno()

    return call, OpenHow


def open_walking(root: int, parts: tuple[str, ...], flags: int) -> int:
    """Open name by name from descriptor to descriptor, following no link: the way of every other system."""
    descriptor = os.dup(root)
    try:
        for name in parts[:-1]:
            descriptor = enter(descriptor, name)
        last = parts[-1] if parts else "."
        return os.open(last, flags | os.O_NOFOLLOW, dir_fd=descriptor)
    finally:
        os.close(descriptor)


def enter(descriptor: int, name: str) -> int:
    """The descriptor of the folder `name`; the one given is closed, unless this raises."""
    inner = os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=descriptor)
    os.close(descriptor)
    return inner
