"""The outbox: durable frames whole and in order, coalescable ones melt or are dropped, nobody waits (J8, J14)."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ullage.wire.limits import Limits
from ullage.wire.transport import Coalesce, Outbox

LIMITS = replace(Limits(), flush=10.0)
KIB = 1024


def join(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"text": "".join(each["text"] for each in parts)}


def last(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return parts[-1]


def encode(params: dict[str, Any]) -> bytes:
    text: str = params["text"]
    return text.encode()


class Pipe:
    """A pipe whose reader reads when told, with an outbox that is stuck until then."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.source, sink = os.pipe()
        self.sink = sink
        self.lost: list[str] = []
        self.outbox = Outbox(sink, limits, self.lost.append)
        self.plug = b"#" * (256 * KIB)
        self.outbox.write(self.plug)
        self.wait_until_stuck()

    def wait_until_stuck(self) -> None:
        """The plug is larger than a pipe: once the writer took it, it waits inside the write."""
        self.start = os.read(self.source, 1)
        assert self.outbox.statistics().durable == 0

    def read_all(self) -> bytes:
        """Everything after the plug, once the outbox was closed."""
        chunks: list[bytes] = []

        def read() -> None:
            while chunk := os.read(self.source, 64 * KIB):
                chunks.append(chunk)

        reader = threading.Thread(target=read)
        reader.start()
        self.outbox.close()
        assert self.outbox.finished
        os.close(self.sink)
        reader.join()
        os.close(self.source)
        everything = self.start + b"".join(chunks)
        assert everything.startswith(self.plug)
        return everything[len(self.plug) :]


def text(value: str) -> dict[str, Any]:
    return {"text": value}


def test_deltas_melt_and_never_pass_a_durable_frame() -> None:
    pipe = Pipe()
    for number in range(10):
        pipe.outbox.offer(text(f"a{number}"), Coalesce("a", join), encode)
        pipe.outbox.offer(text(f"b{number}"), Coalesce("b", join), encode)
    pipe.outbox.write(b"|durable|")
    pipe.outbox.offer(text("a!"), Coalesce("a", join), encode)
    assert pipe.read_all() == b"a0a1a2a3a4a5a6a7a8a9b0b1b2b3b4b5b6b7b8b9|durable|a!"


def test_the_last_one_wins_and_stays_small() -> None:
    pipe = Pipe()
    for number in range(20_000):
        pipe.outbox.offer(text(f"{number:100}"), Coalesce("occupancy", last), encode)
        assert pipe.outbox.statistics().waiting <= 200 * KIB
    assert pipe.read_all() == f"{19_999:100}".encode()


def test_waiting_deltas_are_bounded_and_durable_frames_are_not_dropped() -> None:
    pipe = Pipe(replace(LIMITS, waiting=64 * KIB))
    for number in range(1000):
        pipe.outbox.write(b"<%d>" % number)
        pipe.outbox.offer(text("x" * 1000), Coalesce("m", join), encode)
        assert pipe.outbox.statistics().waiting <= 64 * KIB
    statistics = pipe.outbox.statistics()
    assert statistics.dropped == 1000 - 65
    everything = pipe.read_all()
    assert everything.replace(b"x", b"") == b"".join(b"<%d>" % number for number in range(1000))
    assert everything.count(b"x") == 65_000


def test_a_delta_larger_than_the_limit_is_dropped() -> None:
    pipe = Pipe(replace(LIMITS, waiting=1000))
    pipe.outbox.offer(text("x" * 1001), Coalesce("m", join), encode)
    pipe.outbox.offer(text("y"), Coalesce("m", join), encode)
    assert pipe.read_all() == b"y"


def test_a_merge_that_fails_loses_its_frame_only(caplog: pytest.LogCaptureFixture) -> None:
    pipe = Pipe()
    for _ in range(2):
        pipe.outbox.offer({"text": "x"}, Coalesce("m", lambda parts: {}), encode)
    pipe.outbox.write(b"after")
    assert pipe.read_all() == b"after"
    assert "could not be merged" in caplog.text


def test_a_client_that_never_reads_is_lost_at_the_durable_limit() -> None:
    pipe = Pipe(replace(LIMITS, durable=256 * KIB))
    pipe.outbox.write(b"x" * 256 * KIB)
    assert pipe.lost == []
    pipe.outbox.write(b"x")
    pipe.outbox.write(b"nowhere")
    assert pipe.lost == ["The client has not read for too long."]
    assert pipe.outbox.statistics().durable == 0
    assert pipe.read_all() == b""


def test_a_client_that_closed_its_end_is_told_once() -> None:
    source, sink = os.pipe()
    told = threading.Event()
    lost: list[str] = []
    outbox = Outbox(sink, LIMITS, lambda reason: (lost.append(reason), told.set())[0])
    os.close(source)
    outbox.write(b"x")
    assert told.wait(10)
    outbox.write(b"y")
    outbox.close()
    assert lost == ["The client has closed its end."]
    os.close(sink)


@pytest.fixture
def many_threads() -> Iterator[list[threading.Thread]]:
    threads: list[threading.Thread] = []
    yield threads
    for each in threads:
        each.join()


def test_frames_from_many_threads_stay_whole(many_threads: list[threading.Thread]) -> None:
    pipe = Pipe()

    def send(letter: bytes) -> None:
        for _ in range(50):
            pipe.outbox.write(letter * 5000 + b"\n")

    many_threads += [threading.Thread(target=send, args=(bytes([65 + n]),)) for n in range(4)]
    for each in many_threads:
        each.start()
    for each in many_threads:
        each.join()
    lines = pipe.read_all().splitlines()
    assert len(lines) == 200
    assert all(len(line) == 5000 and len(set(line)) == 1 for line in lines)


STEPS = st.lists(st.tuples(st.sampled_from("ab|"), st.integers(0, 3)), max_size=40)


@settings(derandomize=True, max_examples=50, deadline=None)
@given(STEPS)
def test_each_keys_text_arrives_in_order_between_the_same_durable_frames(steps: list[tuple[str, int]]) -> None:
    pipe = Pipe()
    expected: list[dict[str, str]] = [{"a": "", "b": ""}]
    for key, length in steps:
        if key == "|":
            pipe.outbox.write(b"|")
            expected.append({"a": "", "b": ""})
        else:
            pipe.outbox.offer(text(key * length), Coalesce(key, join), encode)
            expected[-1][key] += key * length
    blocks = pipe.read_all().decode().split("|")
    assert [{key: "".join(c for c in block if c == key) for key in "ab"} for block in blocks] == expected
