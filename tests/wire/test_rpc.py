"""Bodies to messages: every bad body has its error, with the id where it can be known (J5)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ullage.wire import rpc
from ullage.wire.rpc import Call, Note, Refused, Reply, parse

HEAD = b'{"jsonrpc":"2.0","id":7,"method":"m","params":'


def check_refused(body: bytes, code: int, request_id: Any) -> None:
    [message] = parse(body)
    assert isinstance(message, Refused)
    assert (message.code, message.id) == (code, request_id)


@pytest.mark.parametrize(
    ("body", "code", "request_id"),
    [
        (b"", rpc.PARSE_ERROR, None),
        (b"{", rpc.PARSE_ERROR, None),
        (b"\xff\xfe{}", rpc.PARSE_ERROR, None),
        (HEAD + b'"\xff"}', rpc.PARSE_ERROR, 7),
        (HEAD + b"NaN}", rpc.PARSE_ERROR, 7),
        (HEAD + b"-Infinity}", rpc.PARSE_ERROR, 7),
        (HEAD + b"[" * 100_000, rpc.PARSE_ERROR, 7),
        (HEAD + b"[" * 100_000 + b"]" * 100_000 + b"}", rpc.PARSE_ERROR, 7),
        (HEAD + b"1" * 5000 + b"}", rpc.PARSE_ERROR, 7),
        (b'{"jsonrpc":"2.0","method":"m","id":"a b","params":nope}', rpc.PARSE_ERROR, "a b"),
        (b'{"params":{"id":7},nope}', rpc.PARSE_ERROR, None),
        (b'{"jsonrpc":"2.0","id":007,"method":"m"}', rpc.PARSE_ERROR, None),
        (b"null", rpc.INVALID_REQUEST, None),
        (b"[]", rpc.INVALID_REQUEST, None),
        (b"[1]", rpc.INVALID_REQUEST, None),
        (b'[{"jsonrpc":"2.0","id":7,"method":"m"}]', rpc.INVALID_REQUEST, 7),
        (b'{"id":7,"method":"m"}', rpc.INVALID_REQUEST, 7),
        (b'{"jsonrpc":"1.0","id":7,"method":"m"}', rpc.INVALID_REQUEST, 7),
        (b'{"jsonrpc":"2.0","id":7}', rpc.INVALID_REQUEST, 7),
        (b'{"jsonrpc":"2.0","id":7,"params":{}}', rpc.INVALID_REQUEST, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":3}', rpc.INVALID_REQUEST, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":""}', rpc.INVALID_REQUEST, 7),
        (b'{"jsonrpc":"2.0","id":null,"method":"m"}', rpc.INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"m"}', rpc.INVALID_REQUEST, 1.5),
        (b'{"jsonrpc":"2.0","id":1e999,"method":"m"}', rpc.INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"m"}', rpc.INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":{},"method":"m"}', rpc.INVALID_REQUEST, None),
        (HEAD + b'"text"}', rpc.INVALID_REQUEST, 7),
    ],
    ids=lambda value: str(value)[:50] if isinstance(value, bytes) else "",
)
def test_bad_bodies(body: bytes, code: int, request_id: Any) -> None:
    check_refused(body, code, request_id)


def test_each_request_of_a_batch_is_refused_alone() -> None:
    body = b'[{"jsonrpc":"2.0","id":1,"method":"m"},{"jsonrpc":"2.0","method":"n"},{"id":"2"}]'
    assert [each.id for each in parse(body) if isinstance(each, Refused)] == [1, "2"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (HEAD + b"{}}", Call(7, "m", {})),
        (b'{"jsonrpc":"2.0","id":"x","method":"m"}', Call("x", "m", None)),
        (b'{"jsonrpc":"2.0","method":"m","params":[1]}', Note("m", [1])),
        (b'{"jsonrpc":"2.0","id":7,"result":null}', Reply(7)),
        (b'{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"x"}}', Reply(7, None, {"code": 1, "message": "x"})),
        (b'{"jsonrpc":"2.0","id":null,"error":{"code":1}}', Reply(None, None, {"code": 1})),
        (HEAD + b'{"a":1,"a":2}}', Call(7, "m", {"a": 2})),
    ],
)
def test_good_bodies(body: bytes, message: rpc.Message) -> None:
    assert parse(body) == [message]


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_answered(body: bytes) -> None:
    assert all(isinstance(each, Refused) for each in parse(body))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "result", "class", "_x"]) | st.text(), inner)
    ),
    max_leaves=8,
)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(JSON)
def test_any_json_becomes_messages_and_payloads_stay(value: Any) -> None:
    assert parse(json.dumps(value).encode())
    assert parse(rpc.encode({"jsonrpc": "2.0", "id": 7, "method": "m", "params": {"p": value}})) == [
        Call(7, "m", {"p": value})
    ]


def test_what_is_no_json_is_not_written() -> None:
    with pytest.raises(ValueError):
        rpc.encode({"value": float("inf")})
    assert rpc.encode({"value": "\ud800é"}) == rb'{"value":"\ud800\u00e9"}'
