"""`ullage chat`, driven through a real pseudo terminal, and line by line through pipes."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from tests.cli.conftest import Said, Shell
from tests.cli.terminal import PATIENCE, Person

from ullage.cli.demo import hidden_texts
from ullage.cli.output import Out
from ullage.cli.slash import COMMANDS, parse
from ullage.cli.telling import Words
from ullage.core.errors import BadInput
from ullage.storage.files import DiskFiles
from ullage.storage.ids import session_path, workspace_key
from ullage.storage.log import SessionLog

EXPLORER = ("--provider", "explorer")


class Chats:
    """Chats about one folder, at terminals and through pipes."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell

    def person(self, *words: str, **environ: str) -> Person:
        env = {**os.environ, "TERM": "xterm", **environ}
        return Person(["chat", str(self.shell.workspace), *words], env, self.shell.workspace)

    def piped(self, said: str, *words: str) -> Said:
        command = [sys.executable, "-m", "ullage", "chat", str(self.shell.workspace), *words]
        done = subprocess.run(command, input=said.encode(), capture_output=True, timeout=60, check=False)
        return Said(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def chats(shell: Shell) -> Chats:
    shell.set("ANTHROPIC_API_KEY", "")
    return Chats(shell)


def hidden(home: Path) -> set[bytes]:
    return {text for log in home.glob("sessions/*/*.jsonl") for text in hidden_texts(log)}


def many_files(shell: Shell) -> None:
    """More than a window of 12,000 tokens holds."""
    for number in range(12):
        (shell.workspace / f"module_{number}.py").write_text("value = 'some text'\n" * 100, encoding="utf-8")


def stalling(shell: Shell) -> None:
    """A model that never ends its first answer, and ends the others."""
    shell.script({"stall": "thinking about"}, {"say": "Second answer."}, {"say": "Third answer."})


# --- at a terminal ---


def test_a_conversation_with_the_explorer(chats: Chats) -> None:
    """Prompt, answer, tool lines, meter, commands, an unknown one, Ctrl-D (ecosystem 1.2, A, G)."""
    many_files(chats.shell)
    with chats.person(*EXPLORER, "--window", "12000") as person:
        person.sees(r"~[\d,]+ / 10,800 \(\d+ %\) below the handoff line")
        person.say("/compact")
        person.sees("compaction  skipped: There is nothing to compact")
        person.say("What is here?")
        person.sees(r"list        all files  [\d,]+ bytes, \d+\.\d s")
        person.sees("handoff     recorded: a reminder of [\\d,]+ tokens.*These are all")
        person.sees(r"turn done after \d+ steps, [\d.]+ s, tokens: [\d,]+ in, [\d,]+ out")
        person.say("/inspect")
        person.sees(r"filled by +[\d,]+  .*paid +turns")
        person.say("/compacts")
        person.sees("no command /compacts; nothing was sent")
        person.sees("Commands: .*/compact ")
        person.say("/compact keep the names")
        person.sees(r"compaction  manual.*compaction  [\d,]+ to [\d,]+ tokens")
        person.say("/rename A good name")
        person.sees("title       A good name")
        person.say("/fork")
        person.sees("session     [0-9a-f-]{36}  A good name")
        person.sees(r"/ 10,800 \(\d+ %\)")  # typed between two prompts it would mean nothing
        person.type("\x04")
        assert person.leaves() == 0
    secrets = hidden(chats.shell.home)
    assert secrets
    assert [secret for secret in secrets if secret in person.raw or secret in person.screen.encode()] == []
    listed = chats.shell("sessions", "list", str(chats.shell.workspace)).out.splitlines()
    assert [len(listed), "[fork]" in listed[0] or "[fork]" in listed[1]] == [2, True]
    history = chats.shell.home / "chat-history"
    assert (stat.S_IMODE(history.stat().st_mode), b"+/fork" in history.read_bytes()) == (0o600, True)


def test_ctrl_c_cancels_what_runs_and_the_next_prompt_works(chats: Chats) -> None:
    """Bugs row 29's kind: what was interrupted does not spoil what comes next. A queue is held, told and resumed."""
    stalling(chats.shell)
    with chats.person() as person:
        person.sees("below the handoff line")
        person.say("First")
        person.sees("thinking about")
        person.say("Second")
        person.sees("this runs when the turn has ended")
        person.type("\x03")
        person.sees("cancelling.*turn cancelled")
        person.sees("1 held")
        person.type("\x03")
        person.sees("nothing runs")
        person.say("/resume")
        person.sees("Second answer.*turn done")
        person.say("Third")
        person.sees("Third answer.*turn done")
        person.type("half a line\x03\x03")
        person.sees("nothing runs; Ctrl-D or /quit leaves")
        person.say("/quit")
        assert person.leaves() == 0
    assert "Traceback" not in person.screen


def test_sigterm_writes_the_turn_down(chats: Chats) -> None:
    stalling(chats.shell)
    with chats.person() as person:
        person.sees("below the handoff line")
        person.say("First")
        person.sees("thinking about")
        person.process.send_signal(signal.SIGTERM)
        person.sees("turn cancelled")
        assert (person.leaves(), "Traceback" in person.screen) == (0, False)
    shown = chats.shell("sessions", "show", chats.shell.session()).out
    assert "thinking about" in shown
    assert "*Turn ended: cancelled.*" in shown


def test_another_session_is_gone_on_with_by_its_number(chats: Chats) -> None:
    """Ecosystem E and G; what was to steer a turn that was cancelled waits, and can be dropped."""
    read = {"name": "list", "arguments": {"path": "."}}
    chats.shell.script({"say": "One."}, {"stall": "thinking"}, {"say": "Two.", "calls": [read]}, {"say": "Three."})
    with chats.person() as person:
        person.sees("below the handoff line")
        person.say("First")
        person.sees("One\\..*turn done")
        person.say("/fork")
        person.sees("session ")
        person.say("Second")
        person.sees("thinking")
        person.say("/steer look at a.py")
        person.sees("> /steer look at a.py")
        person.type("\x03")
        person.sees("turn cancelled")
        person.say("/drop")
        person.sees("queue       \\d taken out")
        person.say("/sessions")
        person.sees("  2  [0-9a-f-]{36}  .*First.*/resume NUMBER")
        person.say("/resume 2")
        person.sees("session .*> First.*One\\.")
        person.say("Third")
        person.sees("Two\\..*Three\\..*turn done after 2 steps")
        person.type("\x04")
        assert person.leaves() == 0


def test_names_of_files_are_completed(chats: Chats) -> None:
    """On Tab, and a folder's too; a name with control characters in it is left out."""
    (chats.shell.workspace / "source" / "deep").mkdir(parents=True)
    (chats.shell.workspace / "source" / "deep" / "only_one.py").write_text("", encoding="utf-8")
    (chats.shell.workspace / "source" / "deep" / "only\x1b[31m.py").write_text("", encoding="utf-8")
    chats.shell.script({"say": "Seen."})
    with chats.person() as person:
        person.sees("below the handoff line")
        person.type("read source/deep/on\t")
        person.sees("only_one.py")
        person.say("")
        person.sees("> read source/deep/only_one.py\\s+.*Seen")
        person.type("\x04")
        assert person.leaves() == 0
    assert b"\x1b[31m" not in person.raw


def test_a_busy_session_is_read_and_forked(chats: Chats) -> None:
    """Ecosystem M: a clear read-only mode, which names who has it; a fork goes on."""
    chats.shell.script({"say": "One."})
    chats.shell.run("First")
    session = chats.shell.session()
    path = session_path(chats.shell.home, workspace_key(str(chats.shell.workspace)), session)
    elsewhere = SessionLog.open(DiskFiles(), path, 0)
    try:
        with chats.person("--continue") as person:
            person.sees(rf"pid {os.getpid()}\).*/fork goes on")
            person.sees("> First.*One\\.")
            person.sees("reading only")
            person.say("Second")
            person.sees("read-only")
            person.say("/fork")
            person.sees("session     (?!" + session + ")")
            person.say("Second")
            person.sees("One\\..*turn done")
            person.type("\x04")
            assert person.leaves() == 0
    finally:
        elsewhere.log.close()


def test_pasted_lines_are_one_prompt(chats: Chats) -> None:
    chats.shell.script({"say": "Got it."})
    with chats.person() as person:
        person.sees("below the handoff line")
        person.type("\x1b[200~first line\rsecond line\x1b[201~")
        person.say("")
        person.sees("> first line\\s+second line")
        person.sees("Got it")
        person.type("\x04")
        assert person.leaves() == 0
    assert "first line\nsecond line" in chats.shell("sessions", "show", chats.shell.session()).out


@pytest.mark.parametrize("environ", [{"TERM": "dumb"}, {"NO_COLOR": "1"}])
def test_no_control_character_of_a_model_reaches_the_terminal(chats: Chats, environ: dict[str, str]) -> None:
    """And a plain terminal gets nothing but text."""
    chats.shell.script({"say": "red \x1b[31mtext\x1b]0;title\x07\x9b2J end."})
    with chats.person(**environ) as person:
        person.sees("below the handoff line")
        person.say("Go")
        person.sees("red .*end\\..*turn done")
        person.type("\x04")
        assert person.leaves() == 0
    assert [bad for bad in (b"\x1b[31m", b"\x1b]0;", b"\xc2\x9b", b"\x1b[2m") if bad in person.raw] == []
    assert (b"\x1b" in person.raw) == ("NO_COLOR" in environ)


# --- through pipes ---


def test_lines_are_done_one_after_another(chats: Chats) -> None:
    """The answer on one stream, what is about it on the other; no command reaches the model."""
    chats.shell.script({"say": "One."}, {"say": "Two."})
    said = chats.piped("First\n/nope\n\n /etc is what?\n/model\n/sessions\n/quit\nNever\n")
    assert (said.code, said.out) == (2, "One.\nTwo.\n")
    shown = chats.shell("sessions", "show", chats.shell.session()).out
    assert ("/nope" in shown, "/etc is what?" in shown, "Never" in shown) == (False, True, False)
    assert "There is no command /nope" in said.err


def test_nothing_hidden_is_shown(chats: Chats) -> None:
    """Handoffs and compactions are told as figures: no text of theirs is on any stream."""
    many_files(chats.shell)
    lines = "What is here?\n/inspect\n/compact\n/sessions\n/fork\n/inspect\n"
    said = chats.piped(lines, *EXPLORER, "--window", "12000")
    secrets = hidden(chats.shell.home)
    assert secrets, "no handoff was recorded, so nothing could leak"
    assert [secret for secret in secrets if secret in said.out.encode() + said.err.encode()] == []
    assert "handoff     recorded: a reminder of" in said.err
    assert said.code == 0


def test_sigterm_in_the_middle_of_a_line_of_a_script(chats: Chats) -> None:
    """It is not waited out: the turn is cancelled, written down, and the exit code says so."""
    stalling(chats.shell)
    command = [sys.executable, "-m", "ullage", "chat", str(chats.shell.workspace)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"First\nNever\n")
        process.stdin.flush()
        assert process.stdout.read(8) == b"thinking"
        process.send_signal(signal.SIGTERM)
        try:
            _, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert (process.returncode, b"Traceback" in err, b"turn cancelled" in err) == (3, False, True)
    assert "Never" not in chats.shell("sessions", "show", chats.shell.session()).out


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ([], 2, "There is no key"),
        ([*EXPLORER, "--session", "nope"], 2, "not a session id"),
        ([*EXPLORER, "--session", "01a22e03-5681-736c-bf65-a828f821edf8"], 2, "no such session"),
    ],
)
def test_what_can_not_begin_says_why(chats: Chats, words: list[str], code: int, told: str) -> None:
    said = chats.piped("Go\n", *words)
    assert (said.code, said.out) == (code, "")
    assert told in said.err


# --- without a process ---


@pytest.mark.parametrize(
    ("line", "parsed"),
    [
        ("/compact", ("compact", "")),
        ("/compact keep\nthese two  ", ("compact", "keep\nthese two")),
        ("/steer\nlook here", ("steer", "look here")),
        ("/quit", ("quit", "")),
        ("/", None),
        ("/ compact", None),
        ("/etc/passwd is what?", None),
        ("/quit now", None),
        ("/steer", None),
        ("/rename  ", None),
    ],
)
def test_what_a_slash_begins(line: str, parsed: tuple[str, str] | None) -> None:
    """Ecosystem 1.2: an unknown command is an error, never text for the model."""
    if parsed is not None:
        assert parse(line) == parsed
        return
    with pytest.raises(BadInput) as refused:
        parse(line)
    word = line[1:].split(" ")[0]
    assert all(f"/{name}" in refused.value.report.hint for name in COMMANDS) == (word not in COMMANDS)


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_thinking_is_dim_and_a_line_in_between_stands_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is told while an answer streams neither tears its line nor is torn; a reminder is a figure."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    about = Out(stream, dim=True)
    words = Words(Out(stream), about, about, meter=False)
    for of, offset, text in (("reasoning", 0, "hm\x1b[0m"), ("text", 0, "One "), ("text", 4, "two")):
        delta = {"kind": "delta", "of": of, "messageId": "m", "offset": offset, "text": text}
        words.notice("ullage/session/update", {"update": delta})
    for tokens in (0, 283):
        figures = {"used": 7, "hidden": tokens, "phase": "handoff_band", "source": "provider", "inputBudget": 10}
        words.notice("ullage/context/occupancy", figures)
    words.notice("ullage/session/update", {"update": delta | {"offset": 7, "text": ", three."}})
    dim = "\x1b[2m{}\x1b[0m".format
    reminder = dim("handoff     recorded: a reminder of 283 tokens that only the model sees\n")
    assert stream.getvalue() == f"{dim('hm?[0m')}{dim(chr(10))}One two\n{reminder}, three."
    assert words.meter() == "7 / 10 (70 %) handoff band"


def test_the_page_has_every_command() -> None:
    page = (Path(__file__).parents[2] / "docs" / "terminal.md").read_text(encoding="utf-8")
    rows = [f"| `/{name}{takes and ' '}{takes}` | {does} |" for name, (takes, does) in COMMANDS.items()]
    assert "\n".join(rows).replace("NUMBER|ID", r"NUMBER\|ID") in page


# --- what may be changed ---

EDIT = [
    {"calls": [{"name": "read", "arguments": {"path": "a.py"}}]},
    {"calls": [{"name": "edit", "arguments": {"path": "a.py", "edits": [{"old_text": "'a'", "new_text": "'b'"}]}}]},
    {"say": "That was it."},
]


@pytest.mark.parametrize(
    ("options", "answer", "after", "says"),
    [
        (("--permission", "ask"), "y", "b", "+print('b')"),
        (("--permission", "ask"), "s", "b", "s for this session"),
        (("--permission", "ask"), "n", "a", "the user said no"),
        (("--permission", "ask"), "not that one", "a", "the user said: not that one"),
        (("--permission", "edits"), "/sessions", "b", "edit"),
        (("--permission", "plan"), "/sessions", "a", "There is no tool 'edit'"),
        ((), "/sessions", "a", "There is no tool 'edit'"),
    ],
)
def test_asking_before_a_change(chats: Chats, options: tuple[str, ...], answer: str, after: str, says: str) -> None:
    """S5: without the option nothing is changed; with `ask` the diff is shown, and a line answers."""
    chats.shell.script(*EDIT)
    said = chats.piped(f"Mend it.\n{answer}\nThanks.\n", *options)
    assert (chats.shell.workspace / "a.py").read_text() == f"print('{after}')\n"
    log = "".join(path.read_text() for path in chats.shell.home.glob("sessions/*/*.jsonl"))
    assert says in said.err or says in log, said.err
    assert ("would do this:" in said.err) is ("ask" in options)
    assert "That was it." in said.out


def test_no_line_means_no(chats: Chats) -> None:
    """The input ends while a question is open: the turn is cancelled, nothing is changed, the session is whole."""
    chats.shell.script(*EDIT)
    said = chats.piped("Mend it.\n", "--permission", "ask")
    assert "would do this:" in said.err and (chats.shell.workspace / "a.py").read_text() == "print('a')\n"
    assert "cancelled" in said.err


def test_what_a_session_was_allowed_holds_only_with_the_option(chats: Chats) -> None:
    """S6: a session that may edit goes on, without the option: it reads only."""
    chats.shell.script({"say": "Hello."})
    chats.piped("Hello.\n", "--permission", "edits")
    chats.shell.script(*EDIT)
    chats.piped("Mend it.\n", "--continue")
    assert (chats.shell.workspace / "a.py").read_text() == "print('a')\n"
