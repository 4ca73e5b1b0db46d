"""The system prompt is part of every request: it stays small, and the same bytes."""

from __future__ import annotations

from ullage.providers.tokens import load_counter
from ullage.sessions.prompt import system_prompt

MOST = 200
"""Tokens of o200k."""


def test_the_system_prompt_is_small_and_always_the_same() -> None:
    prompt = system_prompt("/home/someone/work")
    assert load_counter().count(prompt) <= MOST
    assert prompt == system_prompt("/elsewhere/work"), "nothing of the machine stands in it"
    assert "`work`" in prompt
