"""`ullage compact`: histories in, valid histories within a budget out (design section 6, end)."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.context.histories import COUNTER

from ullage.cli.compact import Asked, Report, compact, read_body
from ullage.context.request import render
from ullage.core.errors import BadInput
from ullage.core.events import CheckpointCommitted
from ullage.core.reduce import fold
from ullage.importers.claude_code import read
from ullage.providers.anthropic_shape import anthropic_messages
from ullage.providers.shapes import detect_shape
from ullage.testing.api_rules import anthropic_problems, openai_problems

DATA = "ULLAGE_DATA"


def run(messages: list[Any], budget: int, window: int | None = None) -> tuple[list[dict[str, Any]], Report]:
    shape = detect_shape(messages)
    written, report = compact(Asked(messages, budget, window, shape), COUNTER)
    problems = anthropic_problems if shape == "anthropic" else openai_problems
    assert problems(written) == []
    assert report.fits == (report.after <= budget)
    return written, report


def told(messages: list[dict[str, Any]]) -> str:
    return json.dumps(messages, ensure_ascii=False).replace("\\n", "\n")


# --- histories ---


def coding(turns: int, size: int = 2_000) -> list[dict[str, Any]]:
    """Turns of one request, a write, a failing test run and an answer."""
    messages: list[dict[str, Any]] = []
    for turn in range(turns):
        write = {"file_path": f"src/m{turn}.py", "content": "x" * size}
        calls = [
            {"type": "tool_use", "id": f"w{turn}", "name": "Write", "input": write},
            {"type": "tool_use", "id": f"b{turn}", "name": "Bash", "input": {"command": f"pytest -k t{turn}"}},
        ]
        failed = f"Exit code 1\n{'.' * size}\nE   KeyError: 'k{turn}'"
        messages += [
            {"role": "user", "content": f"please do {turn}"},
            {"role": "assistant", "content": [{"type": "text", "text": f"doing {turn}"}, *calls]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": f"w{turn}", "content": "ok"},
                    {"type": "tool_result", "tool_use_id": f"b{turn}", "content": failed, "is_error": True},
                ],
            },
            {"role": "assistant", "content": [{"type": "text", "text": f"done {turn}"}]},
        ]
    return messages


def hard(rng: random.Random, length: int = 160) -> list[dict[str, Any]]:
    """Results in any order, 15 % of them 3 to 14 messages late, 10 % steering between, 3 % never answered."""
    messages: list[dict[str, Any]] = []
    late: list[tuple[int, dict[str, Any]]] = []
    number = 0
    while len(messages) < length:
        due = [block for at, block in late if at <= len(messages)]
        late = [(at, block) for at, block in late if at > len(messages)]
        if due:
            messages.append({"role": "user", "content": due})
        calls = [f"c{number + place}" for place in range(rng.randrange(1, 4))]
        number += len(calls)
        blocks = [{"type": "tool_use", "id": name, "name": "Read", "input": {"file_path": name}} for name in calls]
        messages.append({"role": "assistant", "content": blocks})
        if rng.random() < 0.10:
            messages.append({"role": "user", "content": f"rather not {number}"})
        for name in rng.sample(calls, len(calls)):
            block = {"type": "tool_result", "tool_use_id": name, "content": "r" * rng.randrange(200)}
            if rng.random() < 0.03:
                continue
            if rng.random() < 0.15:
                late.append((len(messages) + rng.randrange(3, 15), block))
            else:
                messages.append({"role": "user", "content": [block]})
    return messages


def check_hard(seeds: range) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        messages = hard(rng, 160 if seed % 50 == 0 else rng.choice((6, 12, 24)))
        run(messages, rng.choice((200, 1_000, 4_000, 10**6)))


@pytest.mark.parametrize("seed", range(0, 2_000, 250))
def test_hard_histories_come_out_valid_and_none_is_refused(seed: int) -> None:
    check_hard(range(seed, seed + 250))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2_000, 10_000, 1_000))
def test_the_other_hard_histories(seed: int) -> None:
    check_hard(range(seed, seed + 1_000))


# --- the contract ---


def test_an_input_under_the_budget_is_repaired_and_not_compacted() -> None:
    messages = coding(2)
    written, report = run(messages, 100_000)
    assert not report.compacted and report.before == report.after
    assert written == [
        each if isinstance(each["content"], list) else {**each, "content": [{"type": "text", "text": each["content"]}]}
        for each in messages
    ]


def test_what_happened_survives() -> None:
    written, report = run(coding(30), 4_000)
    text = told(written)
    assert report.compacted and report.after <= 4_000
    assert all(f"please do {turn}" in text for turn in range(30))
    assert all(f"src/m{turn}.py" in text for turn in range(30))
    assert "KeyError: 'k29'" in text and "pytest -k t29" in text


def test_its_own_output_is_known_again() -> None:
    """Five times in a row: words, files and the newest error of the first stretch are still there."""
    messages, told_first = coding(10), "Never touch the table of ranks."
    messages[0]["content"] += "\n" + told_first
    for round_number in range(5):
        messages, report = run([*messages, *coding(10 + round_number)[-24:]], 3_000)
        assert report.compacted
    text = told(messages)
    assert told_first in text and "src/m0.py" in text and "please do 3" in text


def test_the_active_task_stays_when_a_tool_loop_is_open() -> None:
    messages = [*coding(10), {"role": "user", "content": "now mend the parser, and only that"}, *coding(8)[1:3]]
    written, _ = run(messages, 2_000)
    assert "# Active task" in told(written) and "now mend the parser, and only that" in told(written)


@pytest.mark.parametrize("shape", ["anthropic", "openai"])
def test_what_must_stay_and_does_not_fit_is_written_as_small_as_it_gets(shape: str) -> None:
    task = {"role": "user", "content": "word " * 2_000}
    asked = {"id": "x", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    loop = (
        [{"role": "assistant", "tool_calls": [asked]}, {"role": "tool", "tool_call_id": "x", "content": "y" * 9_000}]
        if shape == "openai"
        else coding(1, 9_000)[1:3]
    )
    written, report = run([task, *loop], 500)
    assert not report.fits and report.notes and report.compacted
    assert task["content"].strip() in told(written) and "y" * 5_000 not in told(written)


def test_a_window_only_feeds_the_gate() -> None:
    free, _ = run(coding(30), 6_000)
    gated, report = run(coding(30), 6_000, window=8_000)
    assert report.after <= 4_000 < run(coding(30), 6_000)[1].after
    assert len(told(gated)) < len(told(free))


def test_an_openai_system_message_stays_first_and_counts() -> None:
    system = {"role": "system", "content": "be kind " * 20}
    talk = [{"role": role, "content": f"{role} {n} " + "w" * 300} for n in range(20) for role in ("user", "assistant")]
    written, report = run([system, *talk], 900)
    assert written[0] == system and report.after <= 900


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{", "no JSON"),
        (b"[]", "no JSON object"),
        (b'{"messages": {}, "budget_tokens": 5}', "must be a list"),
        (b'{"messages": [1], "budget_tokens": 5}', "Message 0"),
        (b'{"messages": []}', "budget_tokens"),
        (b'{"messages": [], "budget_tokens": true}', "budget_tokens"),
        (b'{"messages": [], "budget_tokens": 5, "window": -1}', "window"),
        (b'{"messages": [], "budget_tokens": 5, "model": "x"}', "model"),
        (b'{"messages": [], "budget_tokens": 5, "shape": "x"}', "shape"),
        (b'{"messages": [], "budget_tokens": 5, "budget": 1}', "`budget`"),
    ],
)
def test_a_bad_body_is_named(body: bytes, says: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_body(body)
    assert says in caught.value.report.message


def test_the_command() -> None:
    def command(body: bytes) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([sys.executable, "-m", "ullage", "compact"], input=body, capture_output=True, check=False)

    done = command(json.dumps({"messages": coding(8), "budget_tokens": 1_500, "window": None, "model": None}).encode())
    answer = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, b"") and anthropic_problems(answer["messages"]) == []
    assert answer["report"]["encoding"] == "o200k_base" and answer["report"]["after"] <= 1_500
    refused = command(b"{")
    assert refused.returncode == 2 and b"no JSON" in refused.stderr and b"Traceback" not in refused.stderr
    task = {"messages": [{"role": "user", "content": "many words " * 900}], "budget_tokens": 50}
    assert command(json.dumps(task).encode()).returncode in (0, 3)


# --- a recorded session ---

CONSTRAINT = "Side note for all of this: keep the fixture file tests/data/golden-7731.bin exactly as it is."


def recorded(path: Path) -> list[dict[str, Any]]:
    """All messages of a Claude Code session as an API takes them, as if it had never been compacted."""
    entries = read(path.read_bytes(), COUNTER).entries
    state = fold(entry for entry in entries if not isinstance(entry.event, CheckpointCommitted))
    return anthropic_messages(render(state.items, "")[0])


def cut(messages: list[dict[str, Any]], tokens: int) -> int:
    """How many messages make so many tokens."""
    total = 0
    for count, each in enumerate(messages):
        total += COUNTER.count(json.dumps(each, ensure_ascii=False))
        if total > tokens:
            return count
    return len(messages)


@pytest.mark.parametrize("where", [0.0, 0.5, 1.0], ids=["top", "middle", "bottom"])
def test_a_planted_constraint_survives_five_rounds_word_for_word(where: float) -> None:
    if not os.environ.get(DATA):
        pytest.skip(f"{DATA} names no folder of recorded sessions")
    session = recorded(Path(os.environ[DATA]) / "claude-code-parallel.jsonl")
    end = cut(session, 90_000)
    place = max(1, int(end * where))
    messages = [*session[:place], {"role": "user", "content": CONSTRAINT}, *session[place:end]]
    rest = session[end:] or session
    for _ in range(5):
        written, report = run(messages, 18_000)
        assert report.compacted and CONSTRAINT in told(written)
        more = cut(rest, 72_000)
        messages, rest = [*written, *rest[:more]], rest[more:] or session
