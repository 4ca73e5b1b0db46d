"""Taking one sample of a model's summary: wait, ask, and say what came of it.

Invariant: a sample ends with exactly one input, whatever the summariser does, and within the time it was given. Waiting
and time come from the ports, so that nothing here depends on a real clock. Cancelling ends the call at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from ullage.context.ledger import read_summary
from ullage.core.commands import Summarise
from ullage.core.errors import ErrorReport
from ullage.core.inputs import SampleFailed, SampleFinished, SampleProblem
from ullage.core.messages import Usage
from ullage.core.ports import Answer, ProviderFailure
from ullage.core.requests import Request
from ullage.core.state import State
from ullage.sessions.engine import Engine
from ullage.sessions.ports import Ports

_log = logging.getLogger(__name__)


async def sample(command: Summarise, state: State, engine: Engine, ports: Ports) -> SampleFinished | SampleFailed:
    """Carry out one `Summarise`."""
    plan = command.plan
    if command.pause_ms:
        await ports.pause(command.pause_ms)
    request = engine.summary_request(state, command)
    if request is None:
        return SampleFailed(plan, _NO_SMALLER, problem=SampleProblem.FINAL, asked=False)
    summariser, began = engine.summariser(state), ports.ticks()
    if summariser is None:
        return SampleFailed(plan, _GONE, problem=SampleProblem.FINAL, asked=False)
    refused = engine.spending.refusal(state, request.tokens, request.max_output, summariser.card.name)
    if refused is not None:
        return SampleFailed(plan, refused, problem=SampleProblem.FINAL, asked=False)
    try:
        answer = await _within(command.most_ms, summariser.summarise(request), ports)
    except ProviderFailure as failure:
        return _failed(command, request, failure.report, _problem(failure), round((ports.ticks() - began) * 1000))
    except TimeoutError:
        return _failed(command, request, _TOO_SLOW, SampleProblem.FINAL, command.most_ms)
    except Exception:
        _log.exception("the summariser broke")
        return _failed(command, request, _BROKEN, SampleProblem.FINAL, 0)
    ledger = read_summary(answer)
    if ledger is not None:
        return SampleFinished(plan, ledger, answer.usage, answer.model)
    spent, tokens = round((ports.ticks() - began) * 1000), _tokens(answer.usage, request)
    return SampleFailed(plan, _UNUSABLE, answer.usage, answer.model, spent_ms=spent, spent_tokens=tokens)


def _failed(
    command: Summarise, request: Request, error: ErrorReport, problem: SampleProblem, spent_ms: int
) -> SampleFailed:
    return SampleFailed(command.plan, error, model=request.model, problem=problem, spent_ms=spent_ms)


def _problem(failure: ProviderFailure) -> SampleProblem:
    if failure.overflow:
        return SampleProblem.OVERFLOW
    return SampleProblem.TRANSIENT if failure.transient else SampleProblem.FINAL


def _tokens(usage: Usage, request: Request) -> int:
    """Output that a sample took; all it might have taken where nobody says."""
    return request.max_output if usage.completion is None else usage.completion


async def _within(most_ms: int, work: Coroutine[Any, Any, Answer], ports: Ports) -> Answer:
    """The answer, or TimeoutError when the time is over first; either way the call has ended."""
    asking = asyncio.ensure_future(work)
    timer = asyncio.ensure_future(_wait(ports, most_ms))
    both = (asking, timer)
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            return asking.result()
        raise TimeoutError
    finally:
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)


async def _wait(ports: Ports, most_ms: int) -> None:
    await ports.pause(most_ms)


_BROKEN = ErrorReport("internal", "Something broke inside the server.", "Look at its log, then send once more.")
_UNUSABLE = ErrorReport(
    "summary_unusable", "The model's summary was empty, cut off or broken.", "It is made without the model."
)
_TOO_SLOW = ErrorReport("summary_timeout", "The model's summary took too long.", "It is made without the model.")
_NO_SMALLER = ErrorReport(
    "context_exhausted", "The session does not fit the summary's request.", "It is made without the model."
)
_GONE = ErrorReport("no_summariser", "Nothing can write a summary any more.", "It is made without the model.")
