"""J17: commands, what is told of them, and that nothing is left of them. Every process here is a real one."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from tests.workspace.running import SECONDS, Shell, lives, shell, until

from ullage.core.messages import Op
from ullage.workspace.keeper import LINUX
from ullage.workspace.limits import Limits
from ullage.workspace.sandbox import Sandbox, SandboxMode

QUICK = Limits(command_grace_seconds=0.2)
STUBBORN = "trap '' TERM INT HUP; "
FOR_EVER = "while :; do sleep 60; done"
CANCELLED_S = 3.0
"""Row 39: from the cancel to the turn's end. A promise of the product, not a measure of this machine."""
linux_only = pytest.mark.skipif(not LINUX, reason="only Linux gives a parent what its children leave behind")


def says(pid_file: str) -> str:
    return f"echo $BASHPID > {pid_file}; "


# --- what is told ---


@pytest.mark.parametrize(
    ("command", "text", "code", "is_error"),
    [
        ("echo hi", "hi\n[exit code 0]", 0, False),
        ("echo out; echo err >&2; exit 3", "out\nerr\n[exit code 3]", 3, True),
        ("true", "[exit code 0]", 0, False),
        ("no-such-program", "bash: line 1: no-such-program: command not found\n[exit code 127]", 127, True),
        ("cat; echo done", "done\n[exit code 0]", 0, False),
        ("-n is no option of the shell", None, 127, True),
        ("printf 'caf\\303'; printf '\\251\\n'", "café\n[exit code 0]", 0, False),
        ("printf 'bad \\377 byte'", "bad \ufffd byte\n[exit code 0]", 0, False),
        ("printf 'cut \\303'", "cut \ufffd\n[exit code 0]", 0, False),
        ("kill -KILL $$", "[ended by SIGKILL]", None, True),
        ("pwd", "{folder}\n[exit code 0]", 0, False),
    ],
)
async def test_how_a_command_went(
    tmp_path: Path, command: str, text: str | None, code: int | None, is_error: bool
) -> None:
    async with shell(tmp_path / "ws") as it:
        outcome = await it.bash(command)
    said = outcome.text.replace("/usr/bin/bash", "bash").replace("/bin/bash", "bash")
    assert text is None or said == text.format(folder=tmp_path / "ws")
    assert (outcome.is_error, outcome.full) == (is_error, None)
    assert outcome.facts is not None
    assert (outcome.facts.op, outcome.facts.command, outcome.facts.exit_code) == (Op.RUN, command, code)


@pytest.mark.parametrize(
    ("command", "detail"),
    [
        ("echo '===== 3 passed in 0.1s ====='", "===== 3 passed in 0.1s ====="),
        ("echo before; echo 'E  ValueError: no'; echo after; exit 1", "E  ValueError: no"),
        ("echo fine", None),
    ],
)
async def test_the_line_that_tells_is_a_fact(tmp_path: Path, command: str, detail: str | None) -> None:
    async with shell(tmp_path / "ws") as it:
        outcome = await it.bash(command)
    assert outcome.facts is not None and outcome.facts.detail == detail


@pytest.mark.parametrize("command", ["", "  \n", "echo \0"])
async def test_what_is_no_command(tmp_path: Path, command: str) -> None:
    async with shell(tmp_path / "ws") as it:
        outcome = await it.bash(command)
    assert outcome.is_error and outcome.facts is not None and outcome.facts.exit_code is None


async def test_two_pipes_do_not_tear_each_others_characters(tmp_path: Path) -> None:
    command = "printf 'caf\\303' & wait; printf '\\303' >&2; printf '\\251'; printf '\\251' >&2"
    async with shell(tmp_path / "ws") as it:
        outcome = await it.bash(command)
    assert sorted(outcome.text.partition("\n")[0]) == sorted("caféé")


async def test_the_environment_is_what_is_allowed(tmp_path: Path) -> None:
    """S14: an allowlist, so no key and nothing that makes programs run other programs."""
    environ = dict.fromkeys(("ANTHROPIC_API_KEY", "ULLAGE_SCRIPT", "AWS_SECRET", "LD_PRELOAD", "BASH_ENV"), "canary")
    environ |= {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LC_ALL": "C.UTF-8", "PYTHONSTARTUP": "canary"}
    async with shell(tmp_path / "ws", environ=environ) as it:
        outcome = await it.bash("env")
    assert "canary" not in outcome.text
    assert f"HOME={tmp_path}" in outcome.text and "LC_ALL=C.UTF-8" in outcome.text and "TERM=dumb" in outcome.text


async def test_nothing_of_the_server_is_open_in_a_command(tmp_path: Path) -> None:
    async with shell(tmp_path / "ws") as it:
        outcome = await it.bash("for f in /proc/self/fd/*; do readlink $f; done; :" if LINUX else "echo /dev/null")
    assert [line for line in outcome.text.splitlines() if "pipe:" not in line and "/proc/" not in line] == [
        "/dev/null",
        "[exit code 0]",
    ]


async def test_a_prompt_for_a_password_gets_nothing(tmp_path: Path) -> None:
    """J17: no terminal, no standard input, so nobody waits."""
    async with shell(tmp_path / "ws") as it:
        outcome = await it.bash("read -s secret </dev/tty; read -s other; echo over")
    assert "over" in outcome.text and "/dev/tty" in outcome.text


async def test_p12_a_replaced_root_runs_nothing(tmp_path: Path) -> None:
    """P12: nothing happens in the new tree, and the call says so."""
    async with shell(tmp_path / "ws") as it:
        (tmp_path / "ws").rename(tmp_path / "old")
        (tmp_path / "ws").mkdir()
        outcome = await it.bash("touch here")
    assert outcome.is_error and "replaced" in outcome.text
    assert not list((tmp_path / "ws").iterdir())


# --- output ---


async def test_a_long_output_keeps_both_ends_and_is_stored_whole(tmp_path: Path) -> None:
    """Row 59: the caps are named, and the full text is beside."""
    async with shell(tmp_path / "ws") as it:
        outcome = await it.bash("seq 1 100000")
    assert outcome.full is not None and outcome.full.sha256 in outcome.text
    assert it.blobs[outcome.full.sha256].decode() == "".join(f"{n}\n" for n in range(1, 100_001))
    lines = outcome.text.splitlines()
    assert (lines[:2], lines[-2:]) == (["1", "2"], ["100000", "[exit code 0]"])
    assert len(outcome.text) < Limits().output_head + Limits().output_tail + 300


async def test_what_is_stored_is_bounded_and_says_so(tmp_path: Path) -> None:
    async with shell(tmp_path / "ws", Limits(output_bytes=100_000)) as it:
        outcome = await it.bash("head -c 1000000 /dev/zero | tr '\\0' a; echo; echo the end")
    assert outcome.full is not None and outcome.full.size == 100_000
    assert "its first 100,000 bytes" in outcome.text and "the end" in outcome.text


async def test_memory_holds_the_ends_only(tmp_path: Path) -> None:
    """J17: 10 MB/s and more. The output is counted to its end though most of it is dropped."""
    async with shell(tmp_path / "ws", Limits(output_bytes=1_000_000)) as it:
        await it.bash("head -c 50000000 /dev/zero | tr '\\0' a", background=True)
        [run] = it.commands.background.values()
        await until(run.gone.done)
    kept = run.output.printed()
    assert kept.characters == 50_000_000 and len(kept.text) < 33_000


async def test_output_is_told_while_the_command_runs(tmp_path: Path) -> None:
    async with shell(tmp_path / "ws", QUICK) as it:
        os.mkfifo(it.folder / "gate")
        running = it.begin("echo before; read x < gate; echo after")
        await until(lambda: bool(it.told))
        assert it.told == [(0, "before\n")] and not running.done()
        (it.folder / "gate").write_text("go\n")
        assert (await running).text == "before\nafter\n[exit code 0]"
    assert it.told == [(0, "before\n"), (7, "after\n")]


async def test_what_is_told_is_bounded_and_says_where_it_stands(tmp_path: Path) -> None:
    async with shell(tmp_path / "ws", Limits(live_characters=10)) as it:
        await it.bash("seq 1 20000")
    whole = "".join(f"{n}\n" for n in range(1, 20_001))
    assert it.told and all(len(text) <= 10 and whole[start : start + len(text)] == text for start, text in it.told)
    assert sum(it.told[-1][0:1]) + len(it.told[-1][1]) == len(whole)


# --- the end ---


async def cancelled_in(it: Shell, running: asyncio.Task[object]) -> float:
    began = time.monotonic()
    running.cancel()
    await asyncio.wait((running,))
    assert running.cancelled()
    return time.monotonic() - began


@pytest.mark.parametrize("how", ["cancel", "time", "close"])
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(says("pid") + FOR_EVER, id="plain"),
        pytest.param(STUBBORN + says("pid") + FOR_EVER, id="traps TERM"),
        pytest.param(f"({STUBBORN}{says('pid')}{FOR_EVER}) & wait", id="a child that traps TERM"),
        pytest.param(says("pid") + "kill -STOP $$", id="stopped"),
        pytest.param(f"setsid bash -c '{says('pid')}{FOR_EVER}'; :", marks=linux_only, id="a session of its own"),
        pytest.param(
            f'setsid bash -c "{STUBBORN}({says("pid")}{FOR_EVER}) & disown"; {FOR_EVER}',
            marks=linux_only,
            id="orphaned in a session of its own",
        ),
    ],
)
async def test_nothing_is_left(tmp_path: Path, command: str, how: str) -> None:
    """Rows 39, 40 and J17: TERM, a grace, KILL to all of it; readers are closed by us."""
    limits = Limits(command_grace_seconds=0.2, command_seconds=0.5 if how == "time" else 600)
    async with shell(tmp_path / "ws", limits) as it:
        running = it.begin(command)
        pid = await it.pid("pid")
        match how:
            case "cancel":
                assert await cancelled_in(it, running) < CANCELLED_S
            case "time":
                outcome = await running
                assert "the time limit of 0.5 s was reached" in outcome.text and outcome.is_error
            case "close":
                await it.toolbox.close()
                await running
        assert not lives(pid)


async def test_row_40_a_command_that_goes_on_is_a_listed_job(tmp_path: Path) -> None:
    """The call ends though a child holds its pipes, what was read is told, and the child is named and can be ended."""
    async with shell(tmp_path / "ws", QUICK) as it:
        outcome = await it.bash(f"(echo $BASHPID > pid; {FOR_EVER}) & echo up", timeout=20)
        pid = await it.pid("pid")
        [job] = it.commands.background
        assert outcome.text.startswith("up\n[it left running as " + job) and str(pid) in outcome.text
        assert outcome.text.endswith("[exit code 0]") and lives(pid)
        assert f"[{job} was ended]" in (await it.run("job_stop", job=job)).text
        assert not lives(pid)


@linux_only
async def test_j17_what_made_a_session_of_its_own_is_listed_and_ended(tmp_path: Path) -> None:
    async with shell(tmp_path / "ws", QUICK) as it:
        outcome = await it.bash(f"setsid bash -c '{says('pid')}{FOR_EVER}' & until [ -s pid ]; do :; done")
        pid = await it.pid("pid")
        assert str(pid) in outcome.text and lives(pid)
    assert not lives(pid)


async def test_a_longer_time_than_the_limit_is_not_given(tmp_path: Path) -> None:
    async with shell(tmp_path / "ws", Limits(command_seconds=0.2, command_grace_seconds=0.2)) as it:
        outcome = await it.bash(f"echo some; {FOR_EVER}", timeout=500)
    assert outcome.text.startswith("some\n[the time limit of 0.2 s")


async def test_no_program_is_looked_for_in_the_workspace(tmp_path: Path) -> None:
    """A relative folder in PATH would let a checkout bring its own `bash`."""
    async with shell(tmp_path / "ws", environ={"PATH": f".::bin:{os.environ['PATH']}"}) as it:
        for name in ("bash", "tool"):
            (it.folder / name).write_text("#!/bin/sh\necho canary\n")
            (it.folder / name).chmod(0o700)
        outcome = await it.bash("tool; echo $PATH")
    assert "canary" not in outcome.text and os.environ["PATH"] in outcome.text


async def test_a_keeper_that_is_stopped_or_killed_saves_nobody(tmp_path: Path) -> None:
    for number in (signal.SIGSTOP, signal.SIGKILL):
        async with shell(tmp_path / number.name, QUICK) as it:
            it.commands.sandbox = Sandbox(SandboxMode.OFF)  # in one it could not signal its keeper
            running = it.begin(
                f"({STUBBORN}{says('pid')}{FOR_EVER}) & until [ -s pid ]; do :; done; "
                f"kill -{number.name[3:]} $PPID; {FOR_EVER}"
            )
            pid = await it.pid("pid")
            running.cancel()
            await asyncio.wait((running,))
            await until(lambda pid=pid: not lives(pid))  # type: ignore[misc]


SERVER = """
import asyncio, sys
from pathlib import Path
from tests.workspace.running import shell
async def main():
    async with shell(Path(sys.argv[1])) as it:
        await it.bash(sys.argv[2])
asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_nothing_is_left_when_the_server_is_gone(tmp_path: Path, number: signal.Signals) -> None:
    """Row 62, J12: also when nobody could tidy up."""
    ws = tmp_path / "ws"
    ws.mkdir()
    command = f"({STUBBORN}{says('child')}{FOR_EVER}) & {says('pid')}{FOR_EVER}"
    root = Path(__file__).parents[2]
    server = await asyncio.create_subprocess_exec(sys.executable, "-c", SERVER, str(ws), command, cwd=root)
    files = [ws / "pid", ws / "child"]
    await until(lambda: all(file.exists() and file.read_text().endswith("\n") for file in files))
    pids = [int(file.read_text()) for file in files]
    assert all(map(lives, pids))
    server.send_signal(number)
    await server.wait()
    await until(lambda: not any(map(lives, pids)))


# --- jobs ---


async def test_a_job_is_looked_at_and_ended(tmp_path: Path) -> None:
    async with shell(tmp_path / "ws", QUICK) as it:
        os.mkfifo(it.folder / "gate")
        outcome = await it.bash(f"echo one; read x < gate; echo two; {says('pid')}{FOR_EVER}", background=True)
        [job] = it.commands.background
        assert not outcome.is_error and job in outcome.text
        run = it.commands.background[job]
        await until(lambda: run.output.characters == 4)
        assert (await it.run("job_output", job=job)).text == f"one\n[{job} is still running]"
        (it.folder / "gate").write_text("go\n")
        pid = await it.pid("pid")
        await until(lambda: run.output.characters == 8)
        assert (await it.run("job_output", job=job)).text == f"two\n[{job} is still running]"
        assert (await it.run("job_output", job=job)).text == f"[{job} is still running]"
        ended = await it.run("job_stop", job=job)
        assert ended.text == f"[ended by SIGTERM]\n[{job} was ended]" and not lives(pid)
        assert "had ended already" in (await it.run("job_stop", job=job)).text


async def test_a_job_that_ends_is_waited_for(tmp_path: Path) -> None:
    async with shell(tmp_path / "ws") as it:
        os.mkfifo(it.folder / "gate")
        await it.bash("read x < gate; echo '2 passed'; exit 0", background=True)
        [job] = it.commands.background
        looking = asyncio.ensure_future(it.run("job_output", job=job, wait=SECONDS))
        (it.folder / "gate").write_text("go\n")
        outcome = await looking
    assert outcome.text == "2 passed\n[exit code 0]"
    assert outcome.facts is not None and (outcome.facts.exit_code, outcome.facts.detail) == (0, "2 passed")


async def test_a_job_that_fails_at_once_says_so(tmp_path: Path) -> None:
    async with shell(tmp_path / "ws", Limits(live_seconds=SECONDS)) as it:
        outcome = await it.bash("echo no; exit 4", background=True)
    assert outcome.text == "no\n[it has ended already]\n[exit code 4]" and outcome.is_error


async def test_there_are_so_many_jobs_and_no_more(tmp_path: Path) -> None:
    async with shell(tmp_path / "ws", Limits(background_commands=1, command_grace_seconds=0.2)) as it:
        await it.bash(FOR_EVER, background=True)
        refused = await it.bash(FOR_EVER, background=True)
        assert refused.is_error and "job_stop" in refused.text
        outcome = await it.bash(f"(echo $BASHPID > pid; {FOR_EVER}) & echo up")
        assert "was ended, since there are too many jobs" in outcome.text and not lives(await it.pid("pid"))


async def test_an_unknown_job(tmp_path: Path) -> None:
    async with shell(tmp_path / "ws") as it:
        for tool in ("job_output", "job_stop"):
            outcome = await it.run(tool, job="job-9")
            assert outcome.is_error and "The jobs are: none." in outcome.text
