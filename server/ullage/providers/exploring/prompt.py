"""What a prompt asks for, as far as rules can tell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from ullage.providers.exploring.notes import quotable

_LONG = 2_000  # characters; a longer text is a summary or a file rather than somebody's wish
_WANTED = re.compile(
    r"(?:please )?(?:where (?:is|are|does)|find|look for|search(?: for)?|locate) "
    r"(?:the |definition of )*(?P<what>.+?)"
    r"(?: (?:defined|implemented|handled|done|used|made|kept|set))?[?.!]*",
    re.IGNORECASE,
)
_FOLDER = re.compile(
    r"(?:please )?(?:look (?:deeper |closer )?(?:at|in|into)|explore|read|examine|check|go on with) "
    r"(?:the )?(?:folder )?[`\"']?(?P<folder>[\w.@+-]+(?:/[\w.@+-]+)*/?)[`\"']?(?: .*)?[?.!]*",
    re.IGNORECASE,
)
_ANEW = re.compile(r"\b(?:start over|from the (?:start|beginning)|everything again)\b", re.IGNORECASE)
_QUOTED = re.compile(r"[`\"'](?P<what>[^`\"']+)[`\"']")
_IDENTIFIER = re.compile(r"\w*(?:_\w|[a-z][A-Z]|\w\.\w)\w*")


@dataclass(frozen=True, slots=True)
class Aim:
    """Either something `wanted`, or a `folder` to explore; `anew`: the whole workspace from its beginning."""

    wanted: str = ""
    folder: str = "."
    anew: bool = False


def newest_aim(texts: Sequence[str]) -> Aim | None:
    """The last line of the user's texts that a rule understands."""
    lines = [line.strip() for text in texts if len(text) <= _LONG for line in text.splitlines()]
    return next((aim for line in reversed(lines) if (aim := _aim(line))), None)


def _aim(line: str) -> Aim | None:
    if wanted := _WANTED.fullmatch(line):
        return Aim(wanted=_what(wanted["what"]))
    if (match := _FOLDER.fullmatch(line)) and "/" in match["folder"]:
        return Aim(folder=_folder(match["folder"]))
    return Aim(anew=True) if _ANEW.search(line) else None


def _what(text: str) -> str:
    quoted = _QUOTED.search(text)
    named = quoted["what"] if quoted else next(iter(_IDENTIFIER.findall(text)), text)
    return quotable(named)[:80].rstrip()


def _folder(text: str) -> str:
    path = PurePosixPath(text)
    folder = path.parent if path.suffix and not text.endswith("/") else path
    return quotable(str(folder))[:200].rstrip()


def search_pattern(wanted: str) -> str:
    """A regular expression for some words, whatever stands between them."""
    return r"[\W_]*".join(re.escape(word) for word in re.split(r"\s+", wanted) if word)
