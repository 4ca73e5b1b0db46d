"""`ullage run`: what stands on which stream, how it ends, and that the turn is written down however it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Shell

from ullage.cli.output import Out
from ullage.cli.telling import Words, target
from ullage.core.ports import TokenCounter
from ullage.editors.payloads_context import OccupancyPayload
from ullage.editors.payloads_update import SessionUpdate
from ullage.providers.tokens import ApproximateCounter
from ullage.storage.files import DiskFiles
from ullage.storage.ids import session_path, workspace_key
from ullage.storage.log import SessionLog
from ullage.testing.messages_api import MessagesApi
from ullage.testing.messages_script import says, use

READ = {"name": "read", "arguments": {"path": "a.py"}}
CANARY = "sk-canary-5b1f0c77d2ae4f60"


@pytest.fixture(autouse=True)
def rough(monkeypatch: pytest.MonkeyPatch) -> None:
    """No table is loaded, so that tests are quick; the ones with a process of their own load it."""

    def load() -> TokenCounter:
        return ApproximateCounter()

    monkeypatch.setattr("ullage.cli.opening.load_counter", load)


# --- the two streams ---


def test_the_answer_is_on_one_stream_and_the_rest_on_the_other(shell: Shell) -> None:
    shell.script({"say": "I look.", "calls": [READ]}, {"say": "It prints a."})
    said = shell.run("--window", "50000", "What does a.py do?")
    assert (said.code, said.out) == (0, "I look.\nIt prints a.\n")
    lines = said.err.splitlines()
    assert lines[0] == f"session     {shell.session()}"
    assert any(line.startswith("read        a.py  ") for line in lines)
    assert any(line.startswith("context     ") and "below the handoff line" in line for line in lines)
    assert lines[-1].startswith("turn done after 2 steps")


def test_the_last_line_tells_what_it_cost(shell: Shell) -> None:
    """Where a price is known: of the table, or as set."""
    usage = {"prompt": 100_000, "completion": 1_000, "total": 101_000}
    shell.script({"say": "One.", "usage": usage}, {"say": "Two."})
    said = shell.run("--prices", "scripted=3/15", "--window", "500000", "First")
    assert said.err.splitlines()[-1].endswith(", $0.3150 so far")
    more = shell.run("--session", shell.session(), "Second")
    assert "so far" in more.err.splitlines()[-1]
    assert more.err.splitlines()[1] == "resuming    101,000 tokens, idle for 0 min"
    listed = shell("sessions", "list", "--cost", str(shell.workspace))
    assert "  $0.3150+  First" in listed.out
    shown = shell("sessions", "show", shell.session())
    assert "resuming    101,000 tokens, idle for 0 min\n" in shown.err
    assert "cost        $0.3150+ for 202,000 tokens (turns $0.3150+, summaries -)" in shown.err
    assert shell.run("--prices", "scripted=dear", "Third").code == 2


def test_the_explorer_needs_no_key(shell: Shell) -> None:
    said = shell.run("--provider", "explorer", "Explore")
    assert (said.code, "`1 of 1` files read" in said.out) == (0, True)


@pytest.mark.parametrize(("piped", "code"), [(b"Say \xff it", 0), (b" \n", 2)])
def test_a_prompt_from_standard_input(shell: Shell, monkeypatch: pytest.MonkeyPatch, piped: bytes, code: int) -> None:
    shell.script({"say": "Said."})
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(piped)))
    assert shell.run("-").code == code


def test_json_is_what_a_client_hears(shell: Shell) -> None:
    shell.script({"say": "I look.", "calls": [READ]}, {"say": "It prints a."})
    said = shell.run("--json", "What does a.py do?")
    lines = [json.loads(line) for line in said.out.splitlines()]
    updates = [line["params"] for line in lines if line["method"] == "ullage/session/update"]
    for each in updates:
        assert SessionUpdate.model_validate_json(json.dumps(each)).model_dump(mode="json", by_alias=True) == each
    seqs = [each["seq"] for each in updates if each["seq"] is not None]
    assert seqs == sorted(set(seqs))
    kinds = [each["update"]["kind"] for each in updates]
    assert kinds[0] == "created"
    assert {"prompt", "turnStarted", "delta", "answer", "toolResult", "turnEnded"} <= set(kinds)
    told = [line["params"] for line in lines if line["method"] == "ullage/context/occupancy"]
    assert OccupancyPayload.model_validate_json(json.dumps(told[-1])).used > 0
    assert lines[-1]["method"] == "ullage/session/prompt"
    assert (lines[-1]["result"]["stop"], lines[-1]["result"]["timing"]["steps"]) == ("done", 2)


# --- how it ends ---


@pytest.mark.parametrize(
    ("line", "code", "out", "told"),
    [
        ({"say": "Done."}, 0, "Done.\n", "turn done"),
        ({"say": "And then", "stop": "max_tokens"}, 4, "And then\n", "turn length"),
        ({"fail": 400}, 1, "", "turn failed"),
        ({"fail": 500, "say": "It is"}, 1, "It is\n", "turn failed"),
    ],
)
def test_the_exit_code_tells_how_a_turn_ended(
    shell: Shell, line: dict[str, Any], code: int, out: str, told: str
) -> None:
    shell.script(line)
    said = shell.run("Go")
    assert (said.code, said.out) == (code, out)
    assert told in said.err
    assert ("ullage: " in said.err) == (code == 1)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--provider", "explorer", "  "], "prompt is empty"),
        (["--window", "many", "Go"], "setting window"),
        (["--provider", "explorer", "--session", "nope", "Go"], "not a session id"),
        (["--provider", "explorer", "--session", "01a22e03-5681-736c-bf65-a828f821edf8", "Go"], "no such session"),
        (["Go"], "There is no key"),
        (["--model", "claude-x", "Go"], "There is no key"),
        (["--base-url", "http://127.0.0.1:1", "Go"], "No model is set"),
        (["--provider", "anthropic", "--base-url", "http://127.0.0.1:1", "Go"], "No model is set"),
    ],
)
def test_what_is_not_understood_is_2_and_makes_no_session(shell: Shell, words: list[str], told: str) -> None:
    said = shell.run(*words)
    assert (said.code, said.out) == (2, "")
    assert told in said.err
    assert not list(shell.home.rglob("*.jsonl"))


def test_a_folder_that_is_none(shell: Shell) -> None:
    said = shell("run", str(shell.workspace / "none"), "Go")
    assert (said.code, "is no folder" in said.err) == (2, True)


def test_without_a_key_every_way_is_named(shell: Shell) -> None:
    said = shell.run("Go")
    ways = ("ANTHROPIC_API_KEY", "ULLAGE_MODEL", "keyring set ullage", "/v1/messages", "ULLAGE_BASE_URL", "explorer")
    assert [way for way in ways if way not in said.err] == []


def test_with_a_key_and_no_model_the_model_is_asked_for(shell: Shell) -> None:
    shell.key(CANARY)
    said = shell.run("Go")
    assert (said.code, "No model is set" in said.err, CANARY in said.err) == (2, True, False)


# --- going on ---


def test_a_session_goes_on_with_what_is_said_now(shell: Shell) -> None:
    """Its past is not told again, and what the command line says changes it from here on."""
    shell.script({"say": "One."}, {"say": "Never asked."})
    shell.run("--window", "50000", "First")
    session = shell.session()
    shell.script({"say": "Two."})
    said = shell.run("--session", session, "--json", "--window", "60000", "Second")
    updates = [json.loads(line) for line in said.out.splitlines()]
    changed = [
        u["params"]["update"] for u in updates if u.get("params", {}).get("update", {}).get("kind") == "configured"
    ]
    assert [each["change"]["window"] for each in changed] == [60_000]
    assert (said.code, "First" in said.out, "Two." in said.out) == (0, False, True)
    shown = shell("sessions", "show", session).out
    assert [word in shown for word in ("First", "One.", "Second", "Two.")] == [True] * 4
    assert shell.session() == session


def test_a_session_that_lives_elsewhere_is_left_alone(shell: Shell) -> None:
    shell.script({"say": "One."})
    shell.run("First")
    session = shell.session()
    path = session_path(shell.home, workspace_key(str(shell.workspace)), session)
    elsewhere = SessionLog.open(DiskFiles(), path, 0)
    try:
        said = shell.run("--session", session, "Second")
    finally:
        elsewhere.log.close()
    assert (said.code, said.out) == (1, "")
    assert "Traceback" not in said.err


# --- signals, readers that go, terminals ---


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 3)])
def test_a_signal_cancels_the_turn_which_is_written_down(shell: Shell, number: int, code: int) -> None:
    shell.script({"stall": "thinking about"})
    command = [sys.executable, "-m", "ullage", "run", str(shell.workspace), "Go"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(8) == b"thinking"
        process.send_signal(number)
        _, err = process.communicate(timeout=20)
    assert (process.returncode, b"Traceback" in err) == (code, False)
    shown = shell("sessions", "show", shell.session()).out
    assert "thinking about" in shown
    assert "*Turn ended: cancelled.*" in shown


def test_a_reader_that_goes_cancels_the_turn(shell: Shell) -> None:
    shell.script({"stall": "thinking about " * 20_000})
    command = [sys.executable, "-m", "ullage", "run", str(shell.workspace), "Go"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(8)
        process.stdout.close()
        assert process.stderr is not None
        err = process.stderr.read()
    assert (process.returncode, b"Traceback" in err, b"Broken" in err) == (3, False, False)


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "shown"), [(Terminal(), "a?[31m\tb\n"), (StringIO(), "a\x1b[31m\tb\n")])
def test_no_control_character_reaches_a_terminal(stream: StringIO, shown: str) -> None:
    out, about = Out(stream), StringIO()
    words = Words(out, Out(about))
    words.notice("ullage/session/update", {"update": _answer("a\x1b[31m\tb", "read\x1b", '{"path": "\\u001b]0;x"}')})
    words.notice("ullage/session/update", {"update": _result("\x1b[2J")})
    assert stream.getvalue() == shown
    assert "\x1b" not in about.getvalue()


def _answer(text: str, name: str, arguments: str) -> dict[str, Any]:
    call = {"callId": "c", "name": name, "arguments": arguments}
    return {"kind": "answer", "messageId": "m", "text": text, "calls": [call]}


def _result(text: str) -> dict[str, Any]:
    return {
        "kind": "toolResult",
        "results": [{"callId": "c", "text": text, "textBytes": 4, "full": None, "isError": True}],
    }


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ('{"path": "a.py", "first_line": 3, "lines": 4}', "a.py 3-6"),
        ('{"path": "a.py", "first_line": "3", "lines": 4}', "a.py"),
        ('{"path": "."}', "all files"),
        ('{"path": 3}', '{"path": 3}'),
        ("{broken", "{broken"),
        ("[" * 60, "[" * 47 + "..."),
        ("", ""),
    ],
)
def test_what_a_call_is_about_whatever_the_model_wrote(arguments: str, shown: str) -> None:
    assert target(arguments) == shown


# --- the whole path, once ---


async def test_claude_answers_and_the_key_stays_inside(tmp_path: Path) -> None:
    workspace, home = tmp_path / "workspace", tmp_path / "home"
    workspace.mkdir()
    (workspace / "a.py").write_text("print('a')\n", encoding="utf-8")
    script = [says("I look.", use("read", path="a.py")), says("It prints a.")]
    async with MessagesApi(script, window=50_000, models={"claude-x": (50_000, 2_000)}, key=CANARY) as api:
        env = os.environ | {"ANTHROPIC_API_KEY": CANARY, "ULLAGE_HOME": str(home), "XDG_CONFIG_HOME": str(tmp_path)}
        words = ["run", str(workspace), "What does a.py do?", "--model", "claude-x", "--base-url", api.url]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "ullage", *words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        out, err = await process.communicate()
    assert (process.returncode, out) == (0, b"I look.\nIt prints a.\n")
    assert b"read        a.py" in err
    assert b"below the handoff line" in err
    files = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    assert CANARY.encode() not in out + err + files


@pytest.mark.parametrize(
    ("options", "after"), [((), "a"), (("--permission", "plan"), "a"), (("--permission", "edits"), "b")]
)
def test_a_run_changes_what_it_may(shell: Shell, options: tuple[str, ...], after: str) -> None:
    """S5: nothing without the option, and nothing that is protected with it, since nobody can be asked."""
    edits = [{"old_text": "'a'", "new_text": "'b'"}]
    shell.script(
        {"calls": [{"name": "read", "arguments": {"path": "a.py"}}]},
        {
            "calls": [
                {"name": "edit", "arguments": {"path": "a.py", "edits": edits}},
                {"name": "write", "arguments": {"path": ".git/config", "content": "x"}},
                {"name": "bash", "arguments": {"command": "touch made"}},
            ]
        },
        {"say": "Done."},
    )
    assert shell("run", str(shell.workspace), "Mend it.", *options).code == 0
    assert (shell.workspace / "a.py").read_text() == f"print('{after}')\n"
    assert not (shell.workspace / ".git").exists() and not (shell.workspace / "made").exists()
