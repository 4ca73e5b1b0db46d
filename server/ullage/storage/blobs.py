"""The blob store of one workspace: content named by its own hash.

Invariant: `put` returns only what a power cut can't take any more, and `get` returns only what has the hash that was
asked for. Nothing here deletes.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from ullage.core.errors import StorageFailed
from ullage.core.messages import BlobRef
from ullage.core.ports import BlobWriter
from ullage.storage.files import Files, ensure_folder, write_all, write_new

_SHA256 = re.compile(r"[0-9a-f]{64}")
_COPIED = 1 << 20
"""Bytes copied at a time."""
_NUMBERS = count()
"""Tell apart what this process is writing."""


class BlobStore:
    """`Blobs` in `<home>/blobs/<workspace key>/<first two digits>/<sha256>`."""

    def __init__(self, files: Files, home: Path, key: str) -> None:
        self._files = files
        self._folder = home / "blobs" / key
        self._whole: set[str] = set()
        """Hashes of content that was read whole once."""
        self._lock = threading.Lock()
        """Two threads that put the same content would share a temporary file."""

    def put(self, content: bytes) -> BlobRef:
        """Store content; what is there already and whole is not written again.

        Raises:
            StorageFailed: it is not stored.
        """
        ref = BlobRef(hashlib.sha256(content).hexdigest(), len(content))
        with self._refusals(ref.size), self._lock:
            self._store(self._path(ref.sha256), ref, content)
        return ref

    def writer(self) -> BlobWriter:
        """Begin a blob whose content comes in pieces; until it is committed it lies under a name of its own.

        Raises:
            StorageFailed: the file cannot be made.
        """
        return _Writer(self)

    @contextmanager
    def _refusals(self, size: int) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageFailed(
                f"The disk refused a file of {size} bytes ({os.strerror(error.errno or 0)}).",
                hint=f"Make room in {self._folder}, then try again.",
            ) from error

    def get(self, ref: BlobRef) -> bytes | None:
        """The content, or None when it is missing or damaged."""
        if not _SHA256.fullmatch(ref.sha256):
            return None
        try:
            handle = self._files.open_read(self._path(ref.sha256))
        except OSError:
            return None
        try:
            content = self._files.read(handle, 0, self._files.size(handle))
        except OSError:
            return None
        finally:
            self._files.close(handle)
        return content if hashlib.sha256(content).hexdigest() == ref.sha256 else None

    def has(self, ref: BlobRef) -> bool:
        """Whether `get` would give the content. It is read once; after that its size tells."""
        if ref.sha256 not in self._whole:
            if self.get(ref) is None:
                return False
            self._whole.add(ref.sha256)
        return self._size(ref) == ref.size

    def _size(self, ref: BlobRef) -> int | None:
        try:
            handle = self._files.open_read(self._path(ref.sha256))
        except OSError:
            return None
        try:
            return self._files.size(handle)
        except OSError:
            return None
        finally:
            self._files.close(handle)

    def _path(self, sha256: str) -> Path:
        return self._folder / sha256[:2] / sha256

    def _store(self, path: Path, ref: BlobRef, content: bytes) -> None:
        ensure_folder(self._files, path.parent)
        if self.get(ref) is None:
            write_new(self._files, path, [content])
        else:
            # Whoever put it may have died before this.
            self._files.fsync_dir(path.parent)


class _Writer:
    """A blob that is being written."""

    def __init__(self, store: BlobStore) -> None:
        self._store, self._hash, self._size = store, hashlib.sha256(), 0
        self._path = store._folder / f"{os.getpid()}.{next(_NUMBERS)}.new"
        with store._refusals(0):
            ensure_folder(store._files, store._folder)
            self._handle = store._files.open_append(self._path, create=True)
            store._files.truncate(self._handle, 0)

    def write(self, piece: bytes) -> None:
        with self._store._refusals(self._size + len(piece)):
            write_all(self._store._files, self._handle, piece)
        self._hash.update(piece)
        self._size += len(piece)

    def commit(self) -> BlobRef:
        # Copied and not renamed: its folder follows from its hash, and a rename between folders has no durable order.
        files, ref = self._store._files, BlobRef(self._hash.hexdigest(), self._size)
        path = self._store._path(ref.sha256)
        with self._store._refusals(self._size), self._store._lock:
            ensure_folder(files, path.parent)
            write_new(files, path, (files.read(self._handle, at, _COPIED) for at in range(0, self._size, _COPIED)))
        self.abandon()
        return ref

    def abandon(self) -> None:
        with suppress(OSError):
            self._store._files.close(self._handle)
        with suppress(OSError):
            self._store._files.remove(self._path)
