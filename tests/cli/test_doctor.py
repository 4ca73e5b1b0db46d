"""`ullage doctor`: who answers and why, what is missing, and never a key."""

from __future__ import annotations

import sqlite3

import pytest
from tests.cli.conftest import Said, Shell

from ullage.core.ports import TokenCounter
from ullage.providers.ranks import TableDamaged
from ullage.providers.tokens import ApproximateCounter

KEY = "canary-in-the-environment-19"
URL = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def rough(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> TokenCounter:
        return ApproximateCounter()

    monkeypatch.setattr("ullage.cli.doctor.load_counter", load)


def line(said: Said, name: str) -> str:
    """What was found of one thing, its health first."""
    [found] = [each for each in said.out.splitlines() if each[8:].startswith(f"{name} ")]
    return " ".join(found.split())


NO_KEY, NEEDLESS, GIVEN = "BROKEN key none", "none is needed", "ok key from the environment"
EXPLORER = "32,000 tokens, the explorer's own"


@pytest.mark.parametrize(
    ("words", "key", "provider", "of_key", "window"),
    [
        ("", None, "less provider explorer, offline and rule-based, since no model is set", NEEDLESS, EXPLORER),
        ("", KEY, "less provider explorer, offline and rule-based, since no model", GIVEN, EXPLORER),
        ("--model claude-x", None, "since there is no key and no base_url", NEEDLESS, EXPLORER),
        (
            "--model claude-x",
            KEY,
            "ok provider anthropic, since a model is set and there",
            GIVEN,
            "200,000 tokens by our",
        ),
        (f"--model own --base-url {URL}", None, f"ok provider anthropic at {URL} (comm", NEEDLESS, "no table knows"),
        (
            "--model own --window 9000 --provider anthropic",
            None,
            "asked for (command line)",
            NO_KEY,
            "9,000 tokens (com",
        ),
        ("--provider anthropic", KEY, "BROKEN provider anthropic is asked for, but no model", GIVEN, EXPLORER),
        ("--provider explorer", None, "ok provider explorer", NEEDLESS, EXPLORER),
    ],
)
def test_who_answers_and_why(
    shell: Shell, words: str, key: str | None, provider: str, of_key: str, window: str
) -> None:
    """The exit code is 1 where something that was asked for can't be had."""
    shell.key(key)
    said = shell("doctor", *words.split())
    found = [line(said, name) for name in ("provider", "key", "window")]
    assert provider in found[0]
    assert of_key in found[1]
    assert window in found[2]
    assert said.code == any(each.startswith("BROKEN") for each in found)
    assert KEY not in said.out + said.err


def test_who_said_it(shell: Shell) -> None:
    shell.set("ULLAGE_MODEL", "claude-x")
    found = line(shell("doctor", "--window", "9000"), "settings")
    assert "home (environment), model (environment), window (command line)" in found


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", "ok cost nobody is paid"),
        ("--model claude-sonnet-4-6", "ok cost the price of claude-sonnet-4-6 is known"),
        ("--model own --prices own=1/2", "ok cost the price of own is known"),
        ("--model own", "ok cost what own costs is not known"),
        ("--model own --cap-session-tokens 9", "ok cost what own costs is not known"),
        ("--model own --cap-day-dollars 0.50", "less cost what own costs is not known"),
    ],
)
def test_a_cap_in_dollars_wants_a_price(shell: Shell, words: str, told: str) -> None:
    assert line(shell("doctor", "--base-url", URL, *words.split()), "cost") == told


@pytest.mark.parametrize("amount", ["0", "-1", "free", "1e3"])
def test_a_cap_that_is_no_amount(shell: Shell, amount: str) -> None:
    said = shell("doctor", f"--cap-turn-dollars={amount}")
    assert (said.code, "setting cap_turn_dollars (command line)" in line(said, "settings")) == (1, True)


def test_settings_that_are_not_understood(shell: Shell) -> None:
    said = shell("doctor", "--window", "many")
    assert (said.code, line(said, "settings").startswith("BROKEN settings setting window (command line)")) == (1, True)
    assert line(said, "search")


def test_a_home_that_is_a_file(shell: Shell) -> None:
    shell.home.write_text("x", encoding="utf-8")
    said = shell("doctor")
    assert (said.code, line(said, "home").startswith("BROKEN home"), "is no folder" in said.out) == (1, True, True)


@pytest.mark.parametrize(("made", "told"), [(False, "to be made"), (True, "writable")])
def test_a_home_is_looked_at_and_left_as_it_is(shell: Shell, made: bool, told: str) -> None:
    if made:
        shell.home.mkdir()
    assert line(shell("doctor"), "home").endswith(told)
    assert shell.home.exists() is made
    assert not made or not list(shell.home.iterdir())


def test_a_damaged_table(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> TokenCounter:
        raise TableDamaged("the table is damaged", hint="Install ullage again.")

    monkeypatch.setattr("ullage.cli.doctor.load_counter", load)
    said = shell("doctor")
    assert (said.code, line(said, "tokens")) == (1, "BROKEN tokens the table is damaged")
    assert "Install ullage again." in said.out


def test_without_full_text_search_nothing_is_broken(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(name: str) -> sqlite3.Connection:
        raise sqlite3.OperationalError("no such module: fts5")

    monkeypatch.setattr("ullage.cli.doctor.sqlite3.connect", connect)
    said = shell("doctor")
    assert (said.code, line(said, "search").startswith("less search")) == (0, True)


@pytest.mark.parametrize(
    ("words", "confines", "cuts", "found"),
    [
        ("", True, True, "ok sandbox Commands can write in the workspace and the temporary folder only"),
        ("--sandbox-writable /a:/b", True, True, "the workspace, the temporary folder, /a and /b only"),
        ("--no-sandbox-network", True, True, "They reach no network."),
        ("", True, False, "ok sandbox Commands can"),
        ("--no-sandbox-network", True, False, "BROKEN sandbox Commands can"),
        ("--sandbox off", True, True, "less sandbox Commands are not confined: the sandbox is off."),
        ("", False, False, "less sandbox Commands are not confined: this system has no Landlock."),
    ],
)
def test_what_commands_are_confined_to(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, words: str, confines: bool, cuts: bool, found: str
) -> None:
    for name, can in (("can_confine", confines), ("can_leave_network", cuts)):
        monkeypatch.setattr(f"ullage.cli.doctor.{name}", lambda can=can: can)
        monkeypatch.setattr(f"ullage.workspace.sandbox.{name}", lambda can=can: can)
    assert found in line(shell("doctor", *words.split()), "sandbox")
