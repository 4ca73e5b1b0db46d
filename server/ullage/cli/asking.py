"""`--permission`: what a session in a terminal may change, and asking the person who sits there.

Invariant: without `--permission` nothing is changed, whatever a session was allowed elsewhere. A question is answered
by a line that was read after it was shown, and no line means no.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from typing import Final

from ullage.core.events import SessionConfigured
from ullage.core.inputs import Allowed, Denied
from ullage.sessions.permissions import grant_for
from ullage.sessions.ports import Question

_YES: Final = ("y", "yes")
_SESSION: Final = ("s", "session")
_NO: Final = ("", "n", "no")


def add_permission(parser: argparse.ArgumentParser, *modes: str) -> None:
    """The option, with the modes that make sense where it stands."""
    says = {
        "plan": "plan reads only (the default)",
        "ask": "ask asks before each change",
        "edits": "edits changes files without asking, but for what makes other programs do things",
    }
    parser.add_argument("--permission", choices=modes, help="; ".join(says[mode] for mode in modes))


def permitted(args: argparse.Namespace) -> SessionConfigured | None:
    """What the option says for a new session."""
    return None if args.permission is None else SessionConfigured(permission_mode=args.permission)


def changes(args: argparse.Namespace) -> bool:
    """Whether anything may be changed at all."""
    return args.permission not in (None, "plan")


async def ask_nobody(question: Question) -> Denied:
    """Answers where nobody sits there."""
    return Denied(question.call.call_id, "nobody can be asked here.")


class Asking:
    """One question at a time; `show` tells lines, `news` hears that a question begins or ends."""

    def __init__(self, show: Callable[[list[str]], None], news: Callable[[], None]) -> None:
        self._show, self._news = show, news
        self._turn = asyncio.Lock()
        self._answer: asyncio.Future[str] | None = None
        self.began = asyncio.Event()
        """Set while a question waits for its line."""

    async def ask(self, question: Question) -> Allowed | Denied:
        """Show what would be done, and wait for a line about it."""
        async with self._turn:
            self._answer = asyncio.get_running_loop().create_future()
            self._show(_told(question))
            self.began.set()
            self._news()
            try:
                return _word(question, await self._answer)
            finally:
                self._answer = None
                self.began.clear()
                self._news()

    def take(self, line: str) -> bool:
        """Whether a line was the answer to a question. Commands are none."""
        if self._answer is None or self._answer.done() or line.startswith("/"):
            return False
        self.began.clear()  # what is read next is no answer to this one
        self._answer.set_result(line.strip())
        return True


def _told(question: Question) -> list[str]:
    session = "" if question.careful else ", s for this session"
    why = [f"            asked in every mode: {question.careful}"] if question.careful else []
    return [
        f"{question.call.name:<11} would do this:",
        *question.intent.shown.split("\n"),
        *why,
        f"            y allows it{session}, n does not; anything else does not either, and is told to the model",
    ]


def _word(question: Question, line: str) -> Allowed | Denied:
    call_id, word = question.call.call_id, line.casefold()
    if word in _YES:
        return Allowed(call_id)
    if word in _SESSION and question.careful is None:
        return Allowed(call_id, grant_for(question.intent))
    return Denied(call_id, "the user said no." if word in _NO else f"the user said: {line}")
