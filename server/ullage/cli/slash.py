"""What may follow a slash in a chat.

Invariant: a line that begins with a slash is a command or an error, and never reaches the model.
"""

from __future__ import annotations

import re
from typing import Final

from ullage.core.errors import BadInput

COMMANDS: Final = {
    "help": ("", "these lines"),
    "steer": ("TEXT", "tell the running turn something before its next step"),
    "compact": ("[INSTRUCTIONS]", "replace the older part of what the model sees by a shorter one, now"),
    "inspect": ("", "what fills the window"),
    "fork": ("", "go on in a new session with all that was said; this one stays as it is"),
    "resume": ("[NUMBER|ID]", "let a held queue run; with a session, or where nothing is held: go on with another"),
    "sessions": ("", "the sessions of this folder, numbered for /resume"),
    "drop": ("", "take all waiting prompts out of the queue"),
    "rename": ("TITLE", "give this session a title"),
    "model": ("[NAME]", "who answers, or who shall from the next step on"),
    "quit": ("", "leave; so does Ctrl-D. What was said is kept"),
}
"""Command to what it takes and what it does."""


_SHAPE: Final = re.compile(r"/(\S*)\s*(.*)", re.DOTALL)


def parse(line: str) -> tuple[str, str]:
    """A line that begins with a slash: the command and what follows it.

    Raises:
        BadInput: there is no such command, or it lacks what it takes or has too much.
    """
    shape = _SHAPE.fullmatch(line)
    word, rest = (shape[1], shape[2].rstrip()) if shape else (line, "")
    if word not in COMMANDS:
        known = " ".join(f"/{name}" for name in COMMANDS)
        raise BadInput(
            f"There is no command /{word}; nothing was sent.",
            hint=f"Commands: {known}\nTo send a text that begins with a slash, put a space before it.",
            code="unknown_command",
        )
    takes = COMMANDS[word][0]
    if bool(rest) < takes.isalpha() or (rest and not takes):
        raise BadInput(f"/{word} takes {takes or 'nothing'}.", hint=f"Write: /{word} {takes}".rstrip())
    return word, rest


def described() -> list[str]:
    """A line for each command."""
    width = max(len(f"/{name} {takes}") for name, (takes, _) in COMMANDS.items())
    return [f"{f'/{name} {takes}':<{width}}  {does}" for name, (takes, does) in COMMANDS.items()]
