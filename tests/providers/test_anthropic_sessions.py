"""Whole sessions against the scripted Messages API: what a person said survives, and caches are of use."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.providers.claude import KEY, MODEL

from ullage.context.ledger import HEADINGS
from ullage.core.events import CheckpointCommitted, ItemsOmitted, PromptMode, SessionConfigured, Stop
from ullage.core.messages import Text
from ullage.core.state import Config
from ullage.providers.anthropic import Anthropic, World
from ullage.providers.choosing import Providers, Wanted
from ullage.providers.explorer import Explorer
from ullage.providers.keys import ANTHROPIC, Keys
from ullage.providers.tokens import ApproximateCounter
from ullage.sessions.actor import SessionActor
from ullage.sessions.host import Host
from ullage.sessions.notices import Notice, Occupied, Retried, TurnOutcome
from ullage.sessions.ports import Ports
from ullage.storage.files import DiskFiles
from ullage.testing.messages_api import MessagesApi, canonical
from ullage.testing.messages_script import Line, Thought, refuses, says, use

CONSTRAINT = "Never touch the file payroll.txt."
LEDGER = "<summary>\n" + "\n\n".join(f"## {heading}\n- Noted." for heading in HEADINGS) + "\n</summary>"

LAST_WORD = "Read: " + " ".join(f"line {number} is about the file;" for number in range(400))
"""A long one, which no pruning of tool turns takes away."""


@dataclass
class Played:
    """One session, the server behind it, and what it told."""

    api: MessagesApi
    actor: SessionActor
    told: list[Notice] = field(default_factory=list)

    async def prompt(self, turn_id: str, text: str = "Go on.") -> TurnOutcome:
        return await self.actor.prompt(turn_id, [Text(text)], PromptMode.QUEUE)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """Requests of turns, without those for a summary."""
        return [body for body in self.api.asked if not asks_for_summary(body)]

    @property
    def checkpoints(self) -> int:
        return self.count(CheckpointCommitted)

    def count(self, kind: type) -> int:
        """Events of that kind in the log."""
        return sum(isinstance(entry.event, kind) for entry in self.actor.log.entries())


@asynccontextmanager
async def playing(
    folder: Path, script: Iterator[Line], window: int, believed: int | None = None, **wanted: Any
) -> AsyncIterator[Played]:
    """A session on a small workspace, whose provider takes `window` and says `believed`."""
    work = (folder / "work").resolve()
    work.mkdir()
    (work / "a.txt").write_text("".join(f"line {number:04d} of the file\n" for number in range(400)))
    keys, told = Keys(), list[Notice]()
    keys.give(ANTHROPIC, KEY)

    async def pause(seconds: float) -> None:
        pass

    async with MessagesApi(script, window, {MODEL: (believed or window, 2_000)}, KEY) as api:
        chosen = Wanted(model=MODEL, url=api.url, **wanted)
        providers = Providers(chosen, keys, ApproximateCounter, world=World(pause=pause))
        ports = Ports(
            DiskFiles(),
            folder / "home",
            lambda: 1_790_000_000_000,
            lambda at: "00000000-0000-7000-8000-000000000001",
            lambda: "fence",
            ApproximateCounter,
            providers.provider,
            providers.summariser,
            keys=keys,
        )
        host = Host(ports, SessionConfigured(model=MODEL))
        host.listener = lambda session_id, notice: told.append(notice)
        host.add_root(str(work), trusted=True)
        yield Played(api, await host.new_session(str(work)), told)
        await host.close()
        await providers.close()
    assert api.refused == []


def asks_for_summary(body: dict[str, Any]) -> bool:
    return "between <summary> and </summary>" in json.dumps(body["messages"][-1])


def reading(body: dict[str, Any]) -> Any:
    """Reads on and on; says the ledger when it is asked for one."""
    if asks_for_summary(body):
        return says(LEDGER)
    number = len(body["messages"])
    return says(Thought("Hm."), "I read on.", use("read", path="a.txt", first_line=1 + number % 300, lines=60))


def turns(steps: int, times: int = 99) -> Iterator[Line]:
    """Turns of so many tool calls and a last word."""
    for _ in range(times):
        for _ in range(steps):
            yield reading
        yield lambda body: says(LEDGER) if asks_for_summary(body) else says(LAST_WORD)


def rewritten(bodies: list[dict[str, Any]]) -> int:
    """How often a request did not begin with all of the one before it."""
    return sum(not canonical(after).startswith(canonical(before)) for before, after in pairwise(bodies))


async def test_requests_change_only_at_a_checkpoint_or_a_prune(tmp_path: Path) -> None:
    """Prefix property: consecutive requests share everything but the new tail. What was asked for is never lost."""
    async with playing(tmp_path, turns(12), window=20_000) as played:
        for number in range(8):
            outcome = await played.prompt(f"t{number}", CONSTRAINT if number == 0 else f"Go on with part {number}.")
            assert outcome.stop is Stop.DONE, outcome.error
        changes, checkpoints, prunes = rewritten(played.bodies), played.checkpoints, played.count(ItemsOmitted)
        last, usages = json.dumps(played.bodies[-1]), played.api.usages
    assert min(checkpoints, prunes) >= 1
    assert changes == checkpoints + prunes
    assert CONSTRAINT in last
    cold = sum(usage["cache_read_input_tokens"] == 0 for usage in usages)
    assert cold <= 1 + changes, "the first request and the first one after each change; a summary is not"
    told = [notice for notice in played.told if isinstance(notice, Occupied)]
    assert {notice.occupancy.budget.window_source for notice in told[-1:]} == {"provider"}


async def test_a_window_smaller_than_believed_is_survived_once_without_a_lost_word(tmp_path: Path) -> None:
    """The provider takes 12,000 tokens and says 200,000: one refusal, one checkpoint, and the turn ends well."""
    words = [f"Requirement {number}: colour {number * 7919 % 1000:03d}." for number in range(6)]
    async with playing(tmp_path, turns(4), window=12_000, believed=200_000) as played:
        for number, text in enumerate(words):
            outcome = await played.prompt(f"t{number}", text)
            assert outcome.stop is Stop.DONE, outcome.error
        answered = len(played.api.usages)
        refusals = len(played.api.asked) - answered
        last = json.dumps(played.bodies[-1])
        window = played.actor.occupancy.budget.window
        checkpoints = played.checkpoints
    assert refusals == 1
    assert checkpoints >= 1
    assert window == 12_000
    assert [text for text in words if text not in last] == []


async def test_the_summary_comes_from_its_own_model(tmp_path: Path) -> None:
    async with playing(tmp_path, turns(12), window=20_000, summary_model="claude-small") as played:
        for number in range(2):
            await played.prompt(f"t{number}")
        await played.actor.compact("c1")
        summaries = [body for body in played.api.asked if asks_for_summary(body)]
    assert summaries and {body["model"] for body in summaries} == {"claude-small"}
    assert {body["model"] for body in played.bodies} == {MODEL}


async def test_a_retry_is_told_and_is_no_output(tmp_path: Path) -> None:
    """So an overflow after it is recovered from as if it had come first."""
    overflow = refuses(400, "invalid_request_error", "prompt is too long: 9000 tokens > 8000 maximum")
    script = iter([says("I am here."), refuses(529, "overloaded_error"), overflow, says(LEDGER), says("Here.")])
    async with playing(tmp_path, script, window=20_000) as played:
        await played.prompt("t0", "Hello. " * 900)
        outcome = await played.prompt("t1")
        checkpoints = played.checkpoints
    [tried] = [notice for notice in played.told if isinstance(notice, Retried)]
    assert (tried.attempt, tried.most, tried.message_id, tried.error.code) == (2, 5, "t1/1/a", "provider_overloaded")
    assert (outcome.stop, checkpoints) == (Stop.DONE, 1)


async def test_a_window_reached_while_generating_is_a_cut_answer(tmp_path: Path) -> None:
    """It is kept, never replayed, and the next prompt goes on."""
    script = iter([says("Half an", stop="model_context_window_exceeded"), says("Whole.")])
    async with playing(tmp_path, script, window=20_000) as played:
        first, second = await played.prompt("t1"), await played.prompt("t2")
        said = json.dumps(played.bodies[-1])
    assert (first.stop, second.stop) == (Stop.LENGTH, Stop.DONE)
    assert "Half an" in said


# --- who answers ---

CHOICES: dict[str, tuple[Wanted, bool, str | None, type]] = {
    "nothing set": (Wanted(), False, None, Explorer),
    "a key alone": (Wanted(), True, None, Explorer),
    "a model alone": (Wanted(model="m"), False, None, Explorer),
    "key and model": (Wanted(model="m"), True, None, Anthropic),
    "key and the session's model": (Wanted(), True, "m", Anthropic),
    "an endpoint of one's own": (Wanted(model="m", url="http://127.0.0.1:9"), False, None, Anthropic),
    "wanted without a key": (Wanted("anthropic", "m"), False, None, Anthropic),
    "not wanted": (Wanted("explorer", "m"), True, None, Explorer),
}


@pytest.mark.parametrize(("wanted", "keyed", "model", "kind"), CHOICES.values(), ids=CHOICES.keys())
def test_who_answers(wanted: Wanted, keyed: bool, model: str | None, kind: type) -> None:
    keys = Keys()
    providers = Providers(wanted, keys, ApproximateCounter)
    config = Config(model=model)
    before = providers.provider(config)
    if keyed:
        keys.give(ANTHROPIC, KEY)  # it may come at any time
    found = providers.provider(config)
    assert type(found) is kind
    assert (providers.summariser(config) is not None) is (kind is Anthropic)
    assert providers.provider(config) is found
    assert keyed or before is found
