"""What storage may rely on from a file system, checked against the fake disk and the real one alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from ullage.storage.files import DiskFiles, Files, ensure_folder, write_all, write_new
from ullage.testing.disk import FakeDisk


@pytest.fixture(params=["fake", "real"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return FakeDisk(tmp_path) if request.param == "fake" else DiskFiles()


def content(files: Files, path: Path) -> bytes:
    handle = files.open_read(path)
    data = files.read(handle, 0, files.size(handle))
    files.close(handle)
    return data


def test_append_read_and_cut(files: Files, tmp_path: Path) -> None:
    handle = files.open_append(tmp_path / "a", create=True)
    write_all(files, handle, b"hello ")
    assert files.write(handle, memoryview(b"world")) == 5
    files.fdatasync(handle)
    assert files.read(handle, 6, 3) == b"wor"
    assert files.read(handle, 6, 100) == b"world"
    assert files.read(handle, 100, 5) == b""
    files.truncate(handle, 5)
    assert files.size(handle) == 5
    files.write(handle, b"!")
    assert files.read(handle, 0, 100) == b"hello!", "writes go to the end, also after a cut"
    files.close(handle)


def test_opening(files: Files, tmp_path: Path) -> None:
    for open_it in (files.open_read, files.open_append):
        with pytest.raises(FileNotFoundError):
            open_it(tmp_path / "missing")
    with pytest.raises(FileNotFoundError):
        files.open_append(tmp_path / "no folder" / "a", create=True)
    files.close(files.open_append(tmp_path / "a", create=True))
    handle = files.open_append(tmp_path / "a", create=True)
    files.write(handle, b"kept")
    files.close(handle)
    files.close(files.open_append(tmp_path / "a", create=True))
    assert content(files, tmp_path / "a") == b"kept"


def test_folders_and_names(files: Files, tmp_path: Path) -> None:
    assert files.mkdir(tmp_path / "one")
    assert not files.mkdir(tmp_path / "one")
    with pytest.raises(FileNotFoundError):
        files.mkdir(tmp_path / "two" / "three")
    ensure_folder(files, tmp_path / "x" / "y")
    write_new(files, tmp_path / "x" / "b", [b"0", b"1"])
    write_new(files, tmp_path / "x" / "b", [b"2"])
    assert content(files, tmp_path / "x" / "b") == b"2"
    assert files.list(tmp_path / "x") == ["b", "y"]
    assert files.list(tmp_path / "missing") == []
    assert files.exists(tmp_path / "x" / "b")
    assert files.exists(tmp_path / "x")
    assert not files.exists(tmp_path / "missing" / "b")
    files.rename(tmp_path / "x" / "b", tmp_path / "x" / "c")
    assert files.list(tmp_path / "x") == ["c", "y"]
    files.remove(tmp_path / "x" / "c")
    with pytest.raises(FileNotFoundError):
        files.remove(tmp_path / "x" / "c")
    files.fsync_dir(tmp_path / "x")


def test_a_handle_outlives_a_rename(files: Files, tmp_path: Path) -> None:
    handle = files.open_append(tmp_path / "a", create=True)
    files.rename(tmp_path / "a", tmp_path / "b")
    files.write(handle, b"1")
    files.close(handle)
    assert content(files, tmp_path / "b") == b"1"


def test_one_lock_at_a_time(files: Files, tmp_path: Path) -> None:
    first = files.open_append(tmp_path / "lock", create=True)
    second = files.open_append(tmp_path / "lock")
    assert files.flock(first)
    assert files.flock(first), "taking it again changes nothing"
    assert not files.flock(second)
    files.close(first)
    assert files.flock(second)
    files.close(second)
