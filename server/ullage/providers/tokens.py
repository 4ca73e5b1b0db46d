"""Counting tokens, offline.

Invariant: `count` never raises and never takes long for its length, whatever the text. The encoder beneath panics on a
run of a million spaces and slows down on any long run, so it only ever sees pieces of `PIECE_CHARS` characters; what it
still refuses is counted as bytes/4. Pieces are cut where no token can span the cut, so that their sum is the count of
the whole; only text without such a place for 256 characters is cut in the middle of something.

Until the table is loaded (half a second, half of that holding the interpreter lock) counts are made with
`ApproximateCounter`, which says so in its `encoding`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from ullage.core.ports import TokenCounter
from ullage.providers import ranks

PIECE_CHARS: Final = 16_384
"""Characters the encoder gets at once: at most 64 KiB of UTF-8, a few milliseconds in the worst case."""

BORDER_CHARS: Final = 256
"""How far back from a piece's end a border is looked for."""

# After visible text a blank always begins a new piece of the encoding's pattern, and so does what follows a line end,
# except blanks (they join the line end) and a slash (the pattern lets punctuation swallow line ends and slashes).
_BORDER: Final = re.compile(r"(?<=\S)(?=[ \t])|(?<=\n)(?=[^\s/])")

# From tiktoken's `tiktoken_ext/openai_public.py`: restated because reading it there would fetch the table.
_CONTRACTION: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_UPPER: Final = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER: Final = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_PATTERN: Final = "|".join(
    (
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTION}",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTION}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)


def bytes_over_four(text: str) -> int:
    """A quarter of the UTF-8 bytes, rounded up: about 10 % low on code. A lone surrogate takes three bytes."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)


@dataclass(frozen=True, slots=True)
class ApproximateCounter:
    """Counts without a table."""

    @property
    def encoding(self) -> str:
        return "bytes/4"

    def count(self, text: str) -> int:
        return bytes_over_four(text)


@dataclass(frozen=True, slots=True)
class TiktokenCounter:
    """Counts with an encoder: text to token ids. Special tokens are ordinary text to it."""

    encode: Callable[[str], list[int]]

    @property
    def encoding(self) -> str:
        return ranks.NAME

    def count(self, text: str) -> int:
        if len(text) <= PIECE_CHARS:
            return self._count_piece(text)
        return sum(self._count_piece(piece) for piece in pieces(text))

    def _count_piece(self, piece: str) -> int:
        try:
            return len(self.encode(piece))
        except BaseException as error:
            # A panic of the encoder is no Exception. Anything else of that rank (an interrupt, an exit, a
            # cancellation) is not about this text.
            if isinstance(error, Exception) or type(error).__name__ == "PanicException":
                return bytes_over_four(piece)
            raise


def pieces(text: str) -> Iterator[str]:
    """Cut a text into pieces of at most `PIECE_CHARS` characters; together they are the text."""
    start = 0
    while len(text) - start > PIECE_CHARS:
        end = _border_before(text, start + PIECE_CHARS)
        yield text[start:end]
        start = end
    yield text[start:]


def _border_before(text: str, end: int) -> int:
    borders = [match.start() for match in _BORDER.finditer(text, end - BORDER_CHARS, end)]
    return borders[-1] if borders else end


# --- loading -----------------------------------------------------------------------------------------------------

_lock = threading.Lock()
_counter: TokenCounter | None = None


def load_counter() -> TokenCounter:
    """The counter of this process; the first call loads its table. May be called from any thread.

    Raises:
        TableDamaged: the shipped table is missing or damaged; `ApproximateCounter` still works.
    """
    global _counter
    with _lock:
        if _counter is None:
            _counter = _build()
        return _counter


def counter_if_loaded() -> TokenCounter | None:
    """The counter when it is loaded; never waits."""
    return _counter


def load_in_background() -> Future[TokenCounter]:
    """Load in a thread of its own; the result is `load_counter`'s, or its error."""
    future: Future[TokenCounter] = Future()
    threading.Thread(target=_fulfil, args=(future,), name="ullage-ranks", daemon=True).start()
    return future


def _fulfil(future: Future[TokenCounter]) -> None:
    try:
        future.set_result(load_counter())
    except BaseException as error:  # handed to whoever waits: a thread has nobody else to tell
        future.set_exception(error)


def _build() -> TiktokenCounter:
    import tiktoken

    table = ranks.read_ranks()
    encoding = tiktoken.Encoding(ranks.NAME, pat_str=_PATTERN, mergeable_ranks=table, special_tokens={})
    table.clear()  # the encoder has copied it: 24 MB that nobody reads again
    return TiktokenCounter(encoding.encode_ordinary)
