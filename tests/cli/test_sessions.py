"""`ullage sessions`: what is kept, and the one place where hidden text is shown."""

from __future__ import annotations

import shutil

import pytest
from tests.cli.conftest import Shell

from ullage.context.handoff import TAG
from ullage.core.ports import TokenCounter
from ullage.providers.tokens import ApproximateCounter

UNKNOWN = "01a22e03-5681-736c-bf65-a828f821edf8"


@pytest.fixture(autouse=True)
def rough(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> TokenCounter:
        return ApproximateCounter()

    monkeypatch.setattr("ullage.cli.opening.load_counter", load)


def in_the_band(shell: Shell) -> str:
    """A session that got its reminder: 9,000 of 12,000 tokens were measured before its second turn."""
    shell.script({"say": "One.", "usage": {"prompt": 8_990, "completion": 10, "total": 9_000}})
    shell.run("--window", "16000", "First")
    session = shell.session()
    shell.script({"say": "Two."})
    shell.run("--session", session, "Second")
    return session


def test_hidden_text_is_shown_on_request_and_in_its_place(shell: Shell) -> None:
    session = in_the_band(shell)
    plain, hidden = shell("sessions", "show", session), shell("sessions", "show", session, "--hidden")
    assert (plain.code, hidden.code) == (0, 0)
    assert (TAG in plain.out, TAG in hidden.out) == (False, True)
    order = [hidden.out.index(word) for word in ("First", "One.", "Second", TAG, "Two.")]
    assert order == sorted(order)
    blocks = plain.out.strip().split("\n\n")
    assert [block for block in blocks if block not in hidden.out] == []


def test_a_list_of_one_folder(shell: Shell) -> None:
    shell.script({"say": "One."}, {"say": "Two."})
    shell.run("Look at \x1b[31m this")
    listed = shell("sessions", "list", str(shell.workspace))
    [line] = listed.out.splitlines()
    assert (listed.code, line.endswith("this"), "\x1b" in line) == (0, True, False)
    elsewhere = shell("sessions", "list", str(shell.home))
    assert (elsewhere.code, elsewhere.out) == (0, "")
    assert "No session of" in elsewhere.err


def test_a_folder_that_is_gone_still_has_its_sessions(shell: Shell) -> None:
    shell.script({"say": "One."})
    shell.run("First")
    shutil.rmtree(shell.workspace)
    session = shell.session()
    shown = shell("sessions", "show", session, "--dir", str(shell.workspace))
    assert (shown.code, "One." in shown.out) == (0, True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["show", "nope"], "not a session id"),
        (["show", "../../etc"], "not a session id"),
        (["show", UNKNOWN], "There is no session"),
        (["show", UNKNOWN, "--dir", "."], "There is no session"),
    ],
)
@pytest.mark.parametrize("kept", [False, True], ids=["an empty home", "a home with a session"])
def test_what_is_not_there_is_2(shell: Shell, words: list[str], told: str, kept: bool) -> None:
    if kept:
        shell.script({"say": "One."})
        shell.run("First")
    said = shell("sessions", *words)
    assert (said.code, said.out, told in said.err) == (2, "", True)


def test_a_damaged_log_is_told(shell: Shell) -> None:
    shell.script({"say": "One."})
    shell.run("First")
    session = shell.session()
    [log] = shell.home.rglob("*.jsonl")
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:2], b"broken\n", *lines[3:]]))
    shown = shell("sessions", "show", session)
    assert "One." in shown.out
    assert "damaged" in shown.err


def test_a_log_under_another_name_is_no_other_session(shell: Shell) -> None:
    shell.script({"say": "One."})
    shell.run("First")
    [log] = shell.home.rglob("*.jsonl")
    shutil.copy(log, log.with_name(f"{UNKNOWN}.jsonl"))
    said = shell("sessions", "show", UNKNOWN)
    assert (said.code, said.out, "holds session" in said.err) == (1, "", True)
