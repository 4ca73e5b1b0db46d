"""`bash`, `job_output` and `job_stop`: commands in the workspace, in front and in the background.

How a command ended is said at the end of its output, where shortening never reaches, and in the facts.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence

from ullage.core.errors import BadInput, Refused
from ullage.core.messages import Op, ToolFacts
from ullage.core.ports import Intent, Tell, ToolOutcome, to_nobody
from ullage.core.telling import counted_tests, newest_error
from ullage.tools.arguments import BashArguments, JobOutputArguments, JobStopArguments
from ullage.workspace.commands import Commands, Ended, Run
from ullage.workspace.paths import shown

_SHOWN = 8
"""Most processes and jobs that a result names."""


async def bash(commands: Commands, arguments: BashArguments, tell: Tell) -> ToolOutcome:
    """Run a command line and wait for its end, or leave it running as a job.

    Raises:
        BadInput: it can be no command line.
        Refused: `not_started`, or `too_many_jobs`.
    """
    limits = commands.limits
    if arguments.background:
        _check_room(commands)
    run = commands.start(arguments.command, to_nobody if arguments.background else tell)
    try:
        if arguments.background:
            return await _in_background(commands, run)
        most = min(arguments.timeout or limits.command_default_seconds, limits.command_seconds)
        ended = await run.wait(most)
        notes = [] if ended else [f"the time limit of {most:g} s was reached; it and all it started were ended"]
        if ended is None:
            await run.stop()
            return _told(run, await run.wait(0) or Ended(), notes, is_error=True)
        if ended.left:
            notes.append(await _left(commands, run, ended))
    except asyncio.CancelledError:
        await run.stop()
        raise
    return _told(run, ended, notes, is_error=ended.exit_code != 0)


def command_intent(arguments: BashArguments) -> Intent:
    """A command as a person is shown it. A grant covers it to the letter."""
    whole = arguments.model_dump_json(exclude={"description"})
    lines = (shown(line) for line in arguments.command.split("\n"))
    return Intent(Op.RUN, "\n".join(lines), hashlib.sha256(whole.encode()).hexdigest(), rule=whole)


async def _in_background(commands: Commands, run: Run) -> ToolOutcome:
    """What begins and fails at once is told at once."""
    ended = await run.wait(commands.limits.live_seconds)
    if ended is not None and not ended.left:
        return _told(run, ended, ["it has ended already"], is_error=ended.exit_code != 0)
    commands.keep(run)
    said = f"It runs in the background as {run.run_id}. job_output shows what it prints, job_stop ends it."
    return ToolOutcome(said, facts=ToolFacts(Op.RUN, command=run.command, detail=f"runs as {run.run_id}"))


async def _left(commands: Commands, run: Run, ended: Ended) -> str:
    """What becomes of the processes that a command left running: a job, as far as there is room."""
    who = ", ".join(f"{each.pid} {shown(each.line)[:80]}" for each in ended.left[:_SHOWN])
    if not commands.has_room():
        await run.stop()
        return f"what it left running was ended, since there are too many jobs: {who}"
    commands.keep(run)
    return f"it left running as {run.run_id}, which job_stop ends: {who}"


async def job_output(commands: Commands, arguments: JobOutputArguments, tell: Tell) -> ToolOutcome:
    """Show what a job printed since the last look.

    Raises:
        BadInput: there is no such job.
    """
    run = _job(commands, arguments.job)
    await asyncio.wait((asyncio.wrap_future(run.gone),), timeout=min(arguments.wait, commands.limits.command_seconds))
    news = run.output.since(run.told)
    run.told = news.end
    notes = [f"{news.left_out:,} characters before this are not shown"] if news.left_out else []
    if not run.gone.done():
        return _outcome(run, news.text, [*notes, f"{run.run_id} is still running"], Ended(), is_error=False)
    return _outcome(run, news.text, notes + _how(run, run.ended.result()), run.ended.result(), is_error=False)


async def job_stop(commands: Commands, arguments: JobStopArguments, tell: Tell) -> ToolOutcome:
    """End a job and all that it started.

    Raises:
        BadInput: there is no such job.
    """
    run = _job(commands, arguments.job)
    ran = not run.gone.done()
    await run.stop()
    outcome = await job_output(commands, JobOutputArguments(job=arguments.job, wait=0), tell)
    said = f"{run.run_id} was ended" if ran else f"{run.run_id} had ended already"
    return ToolOutcome(f"{outcome.text}\n[{said}]".strip(), facts=outcome.facts)


def _job(commands: Commands, name: str) -> Run:
    run = commands.background.get(name)
    if run is None:
        known = ", ".join(list(commands.background)[-_SHOWN:]) or "none"
        raise BadInput(f"There is no job '{shown(name)}'.", hint=f"The jobs are: {known}.", code="unknown_job")
    return run


def _check_room(commands: Commands) -> None:
    if not commands.has_room():
        jobs = ", ".join(name for name, run in commands.background.items() if not run.gone.done())
        raise Refused(
            f"{commands.limits.background_commands} jobs are running already.",
            hint=f"End one with job_stop: {jobs}.",
            code="too_many_jobs",
        )


def _told(run: Run, ended: Ended, notes: Sequence[str], *, is_error: bool) -> ToolOutcome:
    run.told = run.output.characters
    return _outcome(run, run.output.printed().text, [*notes, *_how(run, ended)], ended, is_error=is_error)


def _how(run: Run, ended: Ended) -> list[str]:
    if ended.exit_code is not None:
        return [f"exit code {ended.exit_code}"]
    return [f"ended by {ended.signal}"] if ended.signal else ["how it ended is not known"]


def _outcome(run: Run, text: str, notes: Sequence[str], ended: Ended, *, is_error: bool) -> ToolOutcome:
    wrong = is_error or bool(ended.exit_code) or ended.signal is not None
    detail = newest_error(text) if wrong else counted_tests(text)
    facts = ToolFacts(Op.RUN, command=run.command, exit_code=ended.exit_code, detail=detail)
    parts = [text.rstrip("\n"), *(f"[{note}]" for note in notes)]
    full = run.output.printed().full
    return ToolOutcome("\n".join(part for part in parts if part), is_error=is_error, facts=facts, full=full)
