"""The day's record: cheap to add to and to sum, and never an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from ullage.context.caps import Paid
from ullage.storage.files import DiskFiles
from ullage.storage.spending import Day, day_of

NOON = 1_790_078_400_000
DAY = 86_400_000


class Counting(DiskFiles):
    """Counts the bytes that are read."""

    taken = 0

    def read(self, handle: int, offset: int, size: int) -> bytes:
        data = super().read(handle, offset, size)
        self.taken += len(data)
        return data


def test_processes_share_a_day(tmp_path: Path) -> None:
    one, other = Day(DiskFiles(), tmp_path), Day(DiskFiles(), tmp_path)
    assert one.of(NOON) == Paid(0, 0)
    one.add(NOON, 100, 7)
    other.add(NOON, 50, None)
    assert one.of(NOON) == other.of(NOON) == Paid(150, 7)
    other.add(NOON + 1, 5, 1)
    assert one.of(NOON) == Paid(155, 8)


def test_a_new_day_begins_at_nothing_and_the_old_one_is_forgotten(tmp_path: Path) -> None:
    day = Day(DiskFiles(), tmp_path)
    day.add(NOON, 100, 7)
    assert day.of(NOON + DAY) == Paid(0, 0)
    day.add(NOON + DAY, 1, 1)
    assert day.of(NOON + DAY) == Paid(1, 1)
    assert [path.name for path in (tmp_path / "spending").iterdir()] == [day_of(NOON + DAY)]


def test_only_what_is_new_is_read(tmp_path: Path) -> None:
    files = Counting()
    day = Day(files, tmp_path)
    for _ in range(100):
        day.add(NOON, 1, 1)
        day.of(NOON)
    assert files.taken == (tmp_path / "spending" / day_of(NOON)).stat().st_size


def test_what_is_not_understood_counts_as_nothing(tmp_path: Path) -> None:
    path = tmp_path / "spending" / day_of(NOON)
    path.parent.mkdir()
    path.write_bytes(b"10 2\n\xff\x00\n-5 1\nten 1\n1 2 3\n\n7 -\n99 99")
    day = Day(DiskFiles(), tmp_path)
    assert day.of(NOON) == Paid(17, 2)
    with path.open("ab") as file:
        file.write(b"9\n")
    assert day.of(NOON) == Paid(17 + 99, 2 + 999)


@pytest.mark.parametrize("broken", ["a file is in the way", "the record is a folder", "the home is gone"])
def test_a_record_that_cannot_be_kept_is_no_error(tmp_path: Path, broken: str) -> None:
    match broken:
        case "a file is in the way":
            (tmp_path / "spending").write_text("", encoding="utf-8")
        case "the record is a folder":
            (tmp_path / "spending" / day_of(NOON)).mkdir(parents=True)
        case _:
            (tmp_path / "home").write_text("", encoding="utf-8")
    day = Day(DiskFiles(), tmp_path / "home" if broken == "the home is gone" else tmp_path)
    day.add(NOON, 1, 1)
    assert day.of(NOON) == Paid(0, 0)
