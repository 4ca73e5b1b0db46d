"""The blob store, on the fake disk and the real one."""

from __future__ import annotations

import errno
import hashlib
from pathlib import Path

import pytest

from ullage.core.errors import StorageFailed
from ullage.core.messages import BlobRef
from ullage.storage.blobs import BlobStore
from ullage.storage.files import DiskFiles, Files
from ullage.testing.disk import FakeDisk

KEY = "0123456789abcdef"


@pytest.fixture(params=["fake", "real"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return FakeDisk(tmp_path) if request.param == "fake" else DiskFiles()


@pytest.mark.parametrize("content", [b"", b"x", b"\x00" * 100_000])
def test_round_trip(files: Files, tmp_path: Path, content: bytes) -> None:
    store = BlobStore(files, tmp_path, KEY)
    ref = store.put(content)
    assert ref == BlobRef(hashlib.sha256(content).hexdigest(), len(content))
    assert store.put(content) == ref
    assert BlobStore(files, tmp_path, KEY).get(ref) == content


@pytest.mark.parametrize("sha256", ["00" * 32, "", "../../../etc/passwd", "A" * 64, "00" * 31 + "0\n"])
def test_what_is_not_there(files: Files, tmp_path: Path, sha256: str) -> None:
    assert BlobStore(files, tmp_path, KEY).get(BlobRef(sha256, 1)) is None


@pytest.mark.parametrize("happens", ["removed", "damaged before", "cut short"])
def test_has_tells_what_get_would_give(files: Files, tmp_path: Path, happens: str) -> None:
    store = BlobStore(files, tmp_path, KEY)
    ref = store.put(b"content")
    path = tmp_path / "blobs" / KEY / ref.sha256[:2] / ref.sha256
    if happens != "damaged before":
        assert store.has(ref) and store.has(ref)
    files.remove(path)
    if happens != "removed":
        handle = files.open_append(path, create=True)
        files.write(handle, b"CONTENT" if happens == "damaged before" else b"cont")
        files.close(handle)
    assert not store.has(ref)
    store.put(b"content")
    assert store.has(ref)
    assert not store.has(BlobRef("../../../etc/passwd", 1))


def test_workspaces_share_nothing(files: Files, tmp_path: Path) -> None:
    ref = BlobStore(files, tmp_path, KEY).put(b"secret")
    assert BlobStore(files, tmp_path, "f" * 16).get(ref) is None


def test_damage_is_seen_and_mended(files: Files, tmp_path: Path) -> None:
    store = BlobStore(files, tmp_path, KEY)
    ref = store.put(b"content")
    path = tmp_path / "blobs" / KEY / ref.sha256[:2] / ref.sha256
    handle = files.open_append(path)
    files.write(handle, b"!")
    files.close(handle)
    assert store.get(ref) is None
    store.put(b"content")
    assert store.get(ref) == b"content"


def test_put_survives_a_power_cut(tmp_path: Path) -> None:
    """Durable before the line that names it is written: content, name, and every folder above."""
    disk = FakeDisk(tmp_path)
    ref = BlobStore(disk, tmp_path, KEY).put(b"content")
    assert BlobStore(disk.lose_power(lambda n: 0), tmp_path, KEY).get(ref) == b"content"


def test_putting_again_makes_durable_what_another_left(tmp_path: Path) -> None:
    """Whoever stored it first may have died before its name was synced."""
    disk = FakeDisk(tmp_path)
    ref = BlobStore(disk, tmp_path, KEY).put(b"content")
    path = tmp_path / "blobs" / KEY / ref.sha256[:2] / ref.sha256
    disk.rename(path, path.with_name("elsewhere"))
    disk.fsync_dir(path.parent)
    disk.rename(path.with_name("elsewhere"), path)
    BlobStore(disk, tmp_path, KEY).put(b"content")
    assert BlobStore(disk.lose_power(lambda n: 0), tmp_path, KEY).get(ref) == b"content"


def test_a_failing_disk_never_answers_with_a_reference(tmp_path: Path) -> None:
    nth = 0
    while True:
        nth += 1
        disk = FakeDisk(tmp_path)
        disk.fail(nth, errno.EIO)
        try:
            ref = BlobStore(disk, tmp_path, KEY).put(b"content")
        except StorageFailed:
            continue
        assert BlobStore(disk.lose_power(lambda n: 0), tmp_path, KEY).get(ref) == b"content"
        if not disk.has_failed:
            break
    assert nth > 8


def test_files_are_for_the_owner_only(tmp_path: Path) -> None:
    """W-T2."""
    ref = BlobStore(DiskFiles(), tmp_path, KEY).put(b"content")
    path = tmp_path / "blobs" / KEY / ref.sha256[:2] / ref.sha256
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [p.name for p in path.parent.iterdir()] == [ref.sha256], "no temporary file is left"


# --- in pieces ---


@pytest.mark.parametrize("pieces", [[], [b"x"], [b"one ", b"", b"two"]])
def test_what_is_written_in_pieces_is_a_blob_like_any_other(files: Files, tmp_path: Path, pieces: list[bytes]) -> None:
    store = BlobStore(files, tmp_path, KEY)
    writer = store.writer()
    for piece in pieces:
        writer.write(piece)
    ref = writer.commit()
    assert ref == store.put(b"".join(pieces)) and store.get(ref) == b"".join(pieces)
    assert files.list(tmp_path / "blobs" / KEY) == [ref.sha256[:2]]


def test_two_that_are_written_at_once_stay_apart_and_one_that_is_abandoned_is_gone(
    files: Files, tmp_path: Path
) -> None:
    store = BlobStore(files, tmp_path, KEY)
    one, two, gone = store.writer(), store.writer(), store.writer()
    for writer, piece in ((one, b"a"), (two, b"b"), (gone, b"c"), (one, b"a"), (two, b"b")):
        writer.write(piece)
    gone.abandon()
    assert [store.get(writer.commit()) for writer in (one, two)] == [b"aa", b"bb"]
    assert not [name for name in files.list(tmp_path / "blobs" / KEY) if name.endswith(".new")]


def test_a_committed_writer_survives_a_power_cut(tmp_path: Path) -> None:
    disk = FakeDisk(tmp_path)
    writer = BlobStore(disk, tmp_path, KEY).writer()
    writer.write(b"content")
    ref = writer.commit()
    assert BlobStore(disk.lose_power(lambda n: 0), tmp_path, KEY).get(ref) == b"content"


def test_a_failing_disk_never_commits(tmp_path: Path) -> None:
    nth = 0
    while True:
        nth += 1
        disk = FakeDisk(tmp_path)
        disk.fail(nth, errno.EIO)
        try:
            writer = BlobStore(disk, tmp_path, KEY).writer()
            try:
                writer.write(b"content")
                ref = writer.commit()
            except StorageFailed:
                writer.abandon()
                raise
        except StorageFailed:
            continue
        assert BlobStore(disk.lose_power(lambda n: 0), tmp_path, KEY).get(ref) == b"content"
        if not disk.has_failed:
            break
    assert nth > 8
