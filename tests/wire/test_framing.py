"""The framer: every split gives the same frames, whatever bytes come gives a frame or a typed error (J1-J4)."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ullage.wire.framing import Body, Frame, Framer, FramingError, FramingFault, frame
from ullage.wire.limits import Limits

SMALL = Limits(header=200, body=100, skip=1000)
F = FramingFault
GOOD = frame(b"{}")


def feed_all(stream: bytes, cuts: list[int] | None = None, limits: Limits = SMALL) -> tuple[list[Frame], bool]:
    framer = Framer(limits)
    edges = [0, *sorted(cuts or []), len(stream)]
    frames = [each for one, two in itertools.pairwise(edges) for each in framer.feed(stream[one:two])]
    return frames, framer.closed


def check_stream(stream: bytes, *expected: bytes | FramingFault) -> None:
    """Bodies and faults of a stream: whole, byte by byte, and cut at every single place."""
    whole, closed = feed_all(stream)
    seen = [each.data if isinstance(each, Body) else each.fault for each in whole]
    assert seen == list(expected)
    assert feed_all(stream, list(range(len(stream)))) == (whole, closed)
    for cut in range(len(stream)):
        assert feed_all(stream, [cut]) == (whole, closed), cut


def long_header(size: int) -> bytes:
    return b"X-Long: " + b"y" * size + b"\r\n"


@pytest.mark.parametrize(
    ("name", "stream", "expected"),
    [
        ("plain", GOOD, [b"{}"]),
        ("two", GOOD + frame(b"[]"), [b"{}", b"[]"]),
        ("lower case", b"content-length: 2\r\n\r\n{}", [b"{}"]),
        ("upper case", b"CONTENT-LENGTH: 2\r\n\r\n{}", [b"{}"]),
        ("no space", b"Content-Length:2\r\n\r\n{}", [b"{}"]),
        ("much space", b"Content-Length : \t 2  \r\n\r\n{}", [b"{}"]),
        ("type before", b"Content-Type: application/x\r\nContent-Length: 2\r\n\r\n{}", [b"{}"]),
        ("type after", b"Content-Length: 2\r\nContent-Type: a; charset=utf8\r\n\r\n{}", [b"{}"]),
        ("unknown header", b"X-Y: 1: 2\r\nContent-Length: 2\r\n\r\n{}", [b"{}"]),
        ("line feeds only", b"Content-Length: 2\n\n{}" + GOOD, [b"{}", b"{}"]),
        ("byte order mark", b"\xef\xbb\xbf" + GOOD, [b"{}"]),
        ("stray line ends", GOOD + b"\r\n\n" + GOOD, [b"{}", b"{}"]),
        ("equal twice", b"Content-Length: 2\r\ncontent-length: 2\r\n\r\n{}", [b"{}"]),
        ("equal with zeros", b"Content-Length: 2\r\nContent-Length: 02\r\n\r\n{}", [b"{}"]),
        ("unequal", b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}" + GOOD, [F.LENGTH_CONFLICT, b"{}"]),
        ("no length", b"Content-Type: x\r\n\r\n{}" + GOOD, [F.LENGTH_MISSING, b"{}"]),
        ("no colon", b"Content-Length 2\r\n\r\n{}" + GOOD, [F.BAD_HEADER, b"{}"]),
        ("an HTTP request", b"POST / HTTP/1.1\r\nHost: x\r\n\r\n" + GOOD, [F.BAD_HEADER, b"{}"]),
        ("long line", long_header(500) + GOOD, [F.HEADER_TOO_LONG, b"{}"]),
        ("long block", b"X: yyyyyyyy\r\n" * 30 + GOOD, [F.HEADER_TOO_LONG, b"{}"]),
        ("garbage, once told", b"garbage\r\n" * 50 + GOOD, [F.BAD_HEADER, b"{}"]),
        ("lost again, once told", b"Content-Length: 2\r\n!\r\n" * 9 + GOOD, [F.BAD_HEADER, b"{}"]),
        ("told again later", b"!\r\n" + GOOD + b"!\r\n" + GOOD, [F.BAD_HEADER, b"{}", F.BAD_HEADER, b"{}"]),
        ("zero", b"Content-Length: 0\r\n\r\n" + GOOD, [b"", b"{}"]),
        ("negative", b"Content-Length: -5\r\n\r\n{}" + GOOD, [F.LENGTH_BAD, b"{}"]),
        ("plus", b"Content-Length: +2\r\n\r\n{}" + GOOD, [F.LENGTH_BAD, b"{}"]),
        ("hexadecimal", b"Content-Length: 0x10\r\n\r\n{}" + GOOD, [F.LENGTH_BAD, b"{}"]),
        ("underscore", b"Content-Length: 1_0\r\n\r\n{}" + GOOD, [F.LENGTH_BAD, b"{}"]),
        ("empty", b"Content-Length:\r\n\r\n{}" + GOOD, [F.LENGTH_BAD, b"{}"]),
        ("other digits", "Content-Length: ٣\r\n\r\n{}".encode() + GOOD, [F.LENGTH_BAD, b"{}"]),
        ("largest", frame(b"x" * 100) + GOOD, [b"x" * 100, b"{}"]),
        ("oversized, skipped exactly", frame(b"x" * 101) + GOOD, [F.BODY_TOO_LONG, b"{}"]),
        ("oversized, skipped exactly, long", frame(b"x" * 999) + GOOD, [F.BODY_TOO_LONG, b"{}"]),
        ("oversized frames inside", frame(GOOD * 40) + GOOD, [F.BODY_TOO_LONG, b"{}"]),
        ("absurd", b"Content-Length: 1000000000000\r\n\r\n" + GOOD, [F.LENGTH_ABSURD]),
        ("more absurd", b"Content-Length: 1" + b"0" * 20 + b"\r\n\r\n" + GOOD, [F.LENGTH_ABSURD]),
        ("too short", b'Content-Length: 5\r\n\r\n{"a":1}' + GOOD, [b'{"a":', F.BAD_HEADER, b"{}"]),
        ("too long", b"Content-Length: 4\r\n\r\n{}" + GOOD + GOOD, [b"{}Co", F.LENGTH_MISSING, b"{}"]),
        ("cut", b"Content-Length: 5\r\n\r\n{}", []),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_streams(name: str, stream: bytes, expected: list[bytes | FramingFault]) -> None:
    check_stream(stream, *expected)


def test_a_body_that_quotes_a_header_is_never_taken_for_a_frame() -> None:
    """After an error the next frame is searched in bytes; text inside a JSON string must not look like one."""
    body = rb'{"text":"Content-Length: 2\r\n\r\n{}"}'
    check_stream(b"Content-Length: x\r\n\r\n" + body + GOOD, F.LENGTH_BAD, b"{}")


def test_an_oversized_body_leaves_its_start_for_the_answer() -> None:
    frames, _ = feed_all(frame(b'{"id":7' + b" " * 900))
    assert isinstance(frames[0], FramingError)
    assert frames[0].start.startswith(b'{"id":7')


@settings(derandomize=True, max_examples=300, deadline=None)
@given(
    bodies=st.lists(st.binary(max_size=100), max_size=6),
    tail=st.binary(max_size=30),
    cuts=st.lists(st.integers(0, 900), max_size=12),
)
def test_every_split_gives_the_same_frames(bodies: list[bytes], tail: bytes, cuts: list[int]) -> None:
    stream = b"".join(map(frame, bodies)) + tail
    whole = feed_all(stream)
    assert [each.data for each in whole[0][: len(bodies)] if isinstance(each, Body)] == bodies
    assert feed_all(stream, [cut for cut in cuts if cut < len(stream)]) == whole


PIECES = st.sampled_from([b"Content-Length", b":", b" ", b"2", b"\r\n", b"\n", b"{}", GOOD, b"\xff", b"99999999"])


@settings(derandomize=True, max_examples=300, deadline=None)
@given(pieces=st.lists(PIECES | st.binary(max_size=8), max_size=60), size=st.integers(1, 50))
@example(pieces=[b"Content-Length"] * 60, size=1)
def test_whatever_comes_the_framer_is_not_deaf(pieces: list[bytes], size: int) -> None:
    """J2: no exception, the same frames for every split, and a good frame after any rubbish is heard."""
    stream = b"".join(pieces)
    whole = feed_all(stream)
    assert feed_all(stream, list(range(0, len(stream), size))) == whole
    framer = Framer(SMALL)
    framer.feed(stream)
    # Rubbish may claim up to a thousand bytes as its body, or leave a line or block open.
    heard = [each for _ in range(4) for each in framer.feed(b" " * 300 + b"\r\n\r\n" + frame(b"heard") * 3)]
    assert framer.closed or Body(b"heard") in heard


def test_nothing_is_kept_for_a_length_before_its_bytes_arrive() -> None:
    """J4: no allocation before the check, and none beyond what came."""
    limits = Limits()
    tracemalloc.start()
    framer = Framer(limits)
    framer.feed(b"Content-Length: %d\r\n\r\n" % limits.body)
    framer.feed(b"x" * 1000)
    closing = Framer(limits)
    closing.feed(b"Content-Length: 1%s\r\n\r\n" % (b"0" * 100_000))
    skipping = Framer(limits)
    skipping.feed(b"Content-Length: %d\r\n\r\n" % limits.skip)
    block = b"x" * 65536
    for _ in range(200):
        skipping.feed(block)
    lost = Framer(limits)
    for _ in range(200):
        lost.feed(block)
    assert tracemalloc.get_traced_memory()[0] < 1024 * 1024
    tracemalloc.stop()


@pytest.mark.parametrize("stream", [b"content-length: 1x\r\n" * 2000, b"content-length:" * 2000, b"a" * 30_000])
def test_work_is_linear(stream: bytes) -> None:
    """What is kept between two feeds, and so looked at again, stays below one header block, whatever comes."""
    framer = Framer(Limits())
    for at in range(len(stream)):
        framer.feed(stream[at : at + 1])
        assert len(framer._line) <= Limits().header + 1
    assert [each.fault for each in Framer(Limits()).feed(stream) if isinstance(each, FramingError)]
