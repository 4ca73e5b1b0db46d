"""Counting: what tiktoken counts, never an exception, without a network (design 10)."""

from __future__ import annotations

import functools
import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from ullage.core.ports import TokenCounter
from ullage.providers import ranks, tokens


@functools.cache
def reference() -> tiktoken.Encoding:
    """tiktoken's own encoding; its constants come from its source with the loading of the table replaced."""
    from tiktoken_ext import openai_public

    loader = openai_public.load_tiktoken_bpe
    openai_public.load_tiktoken_bpe = lambda *_, **__: ranks.read_ranks()
    try:
        return tiktoken.Encoding(**openai_public.o200k_base())
    finally:
        openai_public.load_tiktoken_bpe = loader


def check_count(text: str) -> None:
    """Our count is tiktoken's count of the whole text, special tokens being ordinary text."""
    assert tokens.load_counter().count(text) == len(reference().encode_ordinary(text))


SOURCE = Path(__file__).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "Don't; it's 12345 o'clock.\r\n\r\n\tAnd so on   \n",
        "👩‍👩‍👧‍👦 family, flag 🇨🇭, skin 👍🏽",
        "日本語のテキストと中文文本和한국어 문장",
        "עברית וערבית العربية हिन्दी ไทย",
        "<|endoftext|> and <|endofprompt|> are text here",
        "a lone surrogate \ud800 and another \udfff",
        "a pair in two halves \ud83d\ude00",
        "nul \x00 bell \x07 separators \x1c\x1d\x1e\x1f\x85\u2028",
        SOURCE,
    ],
)
def test_counts_are_tiktokens(text: str) -> None:
    check_count(text)


@pytest.mark.parametrize(
    "text",
    [
        SOURCE * 40,
        "a line that ends in punctuation;\n" * 4_000,
        "https:/\n/\n/path\n" * 6_000,
        "word " * 30_000,
        "    indented()\n\n" * 6_000,
        "tab\tseparated\tvalues\n" * 5_000,
    ],
)
def test_pieces_add_up_to_the_whole(text: str) -> None:
    assert len(text) > 2 * tokens.PIECE_CHARS
    check_count(text)


@settings(max_examples=150, derandomize=True, deadline=None)
@given(
    st.text(
        alphabet=st.sampled_from("aB1 \t\r\n/.;'\u00a0\u0085\u2003\u3000\x1c日\u0301"),
        min_size=20,
        max_size=60,
    ),
)
def test_every_border_is_one_no_token_spans(text: str) -> None:
    """Each place the cutter may choose leaves the count unchanged."""
    for match in tokens._BORDER.finditer(text):
        left, right = text[: match.start()], text[match.start() :]
        whole = reference().encode_ordinary(text)
        assert reference().encode_ordinary(left) + reference().encode_ordinary(right) == whole


@pytest.mark.parametrize("text", ["日本語" * 30_000, "x" * 100_000, "0123456789abcdef" * 5_000, "あ" * 70_000])
def test_text_without_borders_is_close(text: str) -> None:
    ours, exact = tokens.load_counter().count(text), len(reference().encode_ordinary(text))
    assert abs(ours - exact) <= 0.002 * exact + 1


@pytest.mark.parametrize(
    "text",
    [
        " " * 1_000_000,
        "\t " * 500_000,
        "\u00a0" * 1_000_000,
        "\ud800" * 200_000,
        " " * 300_000 + "x",
        "\n" * 500_000,
    ],
    ids=["spaces", "tabs and spaces", "no-break spaces", "lone surrogates", "spaces and a word", "line ends"],
)
def test_pathological_runs_are_counted(text: str) -> None:
    """W-P11: The encoder alone panics on the first three (a BaseException). Pieces keep it from doing so."""
    count = tokens.load_counter().count(text)
    assert 0 < count <= len(text)
    assert count != tokens.bytes_over_four(text), "the encoder refused a piece"


class PanicException(BaseException):
    """Named as the encoder's own, which cannot be imported."""


class Stopped(BaseException):
    """Stands for an interrupt, an exit, a cancellation."""


def failing(error: BaseException) -> TokenCounter:
    def encode(_text: str) -> list[int]:
        raise error

    return tokens.TiktokenCounter(encode)


@pytest.mark.parametrize("error", [PanicException(), ValueError(), MemoryError()])
def test_a_failing_encoder_falls_back_to_bytes(error: BaseException) -> None:
    assert failing(error).count("twelve bytes") == 3
    assert failing(error).count("x" * 100_000) == 25_000


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(), Stopped()])
def test_what_is_not_about_the_text_passes(error: BaseException) -> None:
    with pytest.raises(type(error)):
        failing(error).count("text")


@pytest.mark.parametrize(("text", "expected"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("é€", 2), ("\ud800", 1)])
def test_approximate(text: str, expected: int) -> None:
    counter = tokens.ApproximateCounter()
    assert (counter.count(text), counter.encoding) == (expected, "bytes/4")


def test_pieces_are_the_text_and_small() -> None:
    text = "".join(chr(0x20 + i * 7 % 0x3000) for i in range(200_000))
    cut = list(tokens.pieces(text))
    assert "".join(cut) == text
    assert all(0 < len(piece) <= tokens.PIECE_CHARS for piece in cut)


# --- the table ---------------------------------------------------------------------------------------------------


def test_the_table_is_the_published_one() -> None:
    text = ranks.published_text(ranks.read_ranks())
    assert len(text) == 3_613_922
    assert hashlib.sha256(text).hexdigest() == ranks.PUBLISHED_SHA256
    assert ranks.unpack(ranks.pack(text)) == ranks.read_ranks()


def test_another_table_is_not_packed() -> None:
    with pytest.raises(ValueError, match="published"):
        ranks.pack(b"YQ== 0\n")


def test_a_damaged_table_is_refused(tmp_path: Path) -> None:
    damaged = tmp_path / "table"
    content = bytearray(ranks.TABLE.read_bytes())
    content[1_000] ^= 1
    damaged.write_bytes(content)
    for table in (damaged, tmp_path / "missing"):
        with pytest.raises(ranks.TableDamaged) as caught:
            ranks.read_ranks(table)
        assert caught.value.report.hint


# --- loading -----------------------------------------------------------------------------------------------------


def test_one_counter_a_process() -> None:
    futures = [tokens.load_in_background() for _ in range(4)]
    counter = tokens.load_counter()
    assert {id(future.result()) for future in futures} == {id(counter)} == {id(tokens.counter_if_loaded())}
    assert counter.encoding == "o200k_base"


def check_process(code: str) -> None:
    """Run code in a fresh interpreter without the variables that tell tiktoken where to look."""
    done = subprocess.run([sys.executable, "-c", code], env={}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_import_loads_nothing() -> None:
    check_process(
        "import sys\n"
        "from ullage.providers import tokens\n"
        "assert tokens.counter_if_loaded() is None\n"
        "assert 'tiktoken' not in sys.modules\n"
    )


def test_loading_opens_no_connection() -> None:
    check_process(
        "import sys\n"
        "sys.addaudithook(lambda name, _: name.startswith('socket.') and sys.exit(f'network: {name}'))\n"
        "from ullage.providers import tokens\n"
        "assert tokens.load_in_background().result().count('hello world') == 2\n"
        "assert 'requests' not in sys.modules\n"
    )


def test_a_failed_load_is_told_to_who_waits() -> None:
    check_process(
        "from pathlib import Path\n"
        "from ullage.providers import ranks, tokens\n"
        "ranks.read_ranks.__defaults__ = (Path('missing'),)\n"
        "assert isinstance(tokens.load_in_background().exception(), ranks.TableDamaged)\n"
        "assert tokens.counter_if_loaded() is None\n"
    )
