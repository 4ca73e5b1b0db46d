"""What users of coding agents reported of session files, as the smallest input each (bugs rows 20-28, 46, 47, 49)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.storage.histories import AT, HOME, ROOT, Writer, disk_with, fake_disk, place, prompt, result, small_log

from ullage.core.errors import SessionUnavailable
from ullage.core.events import LogRepaired, SessionRenamed
from ullage.storage.ids import new_session_id, sessions_folder, workspace_key
from ullage.storage.index import list_sessions
from ullage.storage.log import Opened, SessionLog

KEY = workspace_key(ROOT)


def hundred_lines() -> list[bytes]:
    disk = fake_disk()
    writer = Writer(disk)
    for number in range(99):
        writer.write(SessionRenamed(f"title {number}" + "." * 300))
    return disk.content(writer.path).splitlines(keepends=True)


def opened(content: bytes) -> Opened:
    return SessionLog.open(disk_with(content), place(), AT)


def test_b20_zeros_in_the_middle() -> None:
    """Row 20 (claude-code#49876): damage is shown with its range, later events load, appending waits for consent."""
    content = b"".join(hundred_lines())
    assert len(content) > 40_000
    harmed = content[:8192] + bytes(4096) + content[12288:]
    session = opened(harmed)
    (damage,) = session.damage
    assert damage.start <= 8192 < 12288 <= damage.end < 8192 + 2 * 4096
    assert session.state.facts.title.startswith("title 98")
    assert [one.damaged for one in list_sessions(disk_with(harmed), HOME, KEY)] == [True]
    with pytest.raises(SessionUnavailable):
        session.log.append([prompt("x")], AT)


def test_b21_one_bad_line_of_a_hundred() -> None:
    """Row 21 (claude-code#50347), T112: 99 events and one visible gap."""
    lines = hundred_lines()
    lines[9] = b"{\n"
    session = opened(b"".join(lines))
    assert len(list(session.log.entries())) == 99
    assert len(session.damage) == 1


def test_b23_half_a_line_then_the_whole() -> None:
    """Row 23 (codex#24425): the record loads, the fragment is shown, the session is listed with a mark."""
    lines = hundred_lines()
    content = b"".join([*lines[:-1], lines[-1][:30], lines[-1]])
    session = opened(content)
    assert len(list(session.log.entries())) == 100
    assert [(d.end - d.start) for d in session.damage] == [30]
    assert [one.damaged for one in list_sessions(disk_with(content), HOME, KEY)] == [True]


def test_b24_malformed_end_and_blank_lines() -> None:
    """Row 24 (goose#2529): the torn tail is cut and kept aside; blank lines are ignored and counted."""
    content = small_log(1)
    session = opened(content + b'ole":"x"}\n')
    assert session.repaired is not None
    assert isinstance(list(session.log.entries())[-1].event, LogRepaired)
    blank = opened(content + b"\n\n")
    assert (blank.blank_lines, blank.damage, blank.repaired) == (2, (), None)
    blank.log.append([prompt("x")], AT)
    assert blank.log.verify() == ()


def test_b26_one_huge_result() -> None:
    """Row 26 (claude-code#24118): a line of 12 MB is a line."""
    disk = fake_disk()
    writer = Writer(disk)
    writer.write(result("t", 1, "c", "x" * 12_000_000))
    assert len(list(SessionLog.open_readonly(disk, place()).log.entries())) == 2


def test_b46_similar_folders_share_nothing() -> None:
    """Row 46 (claude-code#7009), W-C9: a key is a hash, so no two names collapse into one."""
    roots = ["/t/my_app", "/t/my-app", "/t/中文", "/t/日本", "/a/b-c", "/a-b/c", "/t/my_app/"]
    assert len({sessions_folder(HOME, workspace_key(root)) for root in roots}) == len(roots)


def test_b47_a_list_is_of_one_workspace() -> None:
    """Row 47 (codex#3856): also when a log lies in the wrong folder, since its header says where it belongs."""
    disk = fake_disk()
    for root in ("/one", "/two"):
        for number in range(3):
            Writer(disk, HOME, new_session_id(AT + number), root).log.close()
    key = workspace_key("/one")
    stray = Writer(disk, HOME, new_session_id(AT + 9), "/two").path
    disk.put(sessions_folder(HOME, key) / stray.name, disk.content(stray))
    assert len(list_sessions(disk, HOME, key)) == 3


def test_wc6_salvage_has_a_report() -> None:
    """W-C6: one bad line doesn't lose the session, and is told of; what stands on the others is there."""
    lines = small_log(3).splitlines(keepends=True)
    for number in range(1, len(lines)):
        harmed = [*lines[:number], b"#" + lines[number][1:], *lines[number + 1 :]]
        session = opened(b"".join(harmed))
        assert session.damage or session.repaired
        assert session.state.facts.session_id == Path(place()).stem
        others = {event["seq"] for line in lines if line != lines[number] for event in json.loads(line)["events"]}
        assert others <= {entry.seq for entry in session.log.entries()}
