"""AppendOnly behaves like a tuple, and what a value holds never changes when a later one grows."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ullage.core.sequence import AppendOnly

PROPERTY = settings(derandomize=True, max_examples=200, deadline=None)

GROWTH = st.lists(st.tuples(st.integers(0, 30), st.lists(st.integers(0, 9), max_size=4)), max_size=12)
"""Which of the values made so far is grown, and by what."""


def _check_same(grown: AppendOnly[int], same: tuple[int, ...], index: int) -> None:
    assert list(grown) == list(same) and len(grown) == len(same)
    assert grown == AppendOnly(same) and (grown != AppendOnly((*same, 0)))
    assert grown[index:] == list(same[index:]) and grown[::-1] == list(same[::-1])
    assert list(reversed(grown)) == list(reversed(same)) and repr(grown) == f"AppendOnly({list(same)!r})"
    for place in range(-len(same) - 1, len(same) + 1):
        assert _at(grown, place) == _at(same, place)


def _at(values: AppendOnly[int] | tuple[int, ...], place: int) -> int | None:
    try:
        return values[place]
    except IndexError:
        return None


@PROPERTY
@given(GROWTH, st.integers(-5, 5))
def test_every_value_equals_the_tuple_that_it_stands_for(growth: list[tuple[int, list[int]]], index: int) -> None:
    values, tuples = [AppendOnly[int]()], [tuple[int, ...]()]
    for which, more in growth:
        which %= len(values)
        one_more = values[which].append(more[0]) if len(more) == 1 else values[which].extend(more)
        values.append(one_more)
        tuples.append((*tuples[which], *more))
    for grown, same in zip(values, tuples, strict=True):
        _check_same(grown, same, index)


def test_a_reader_that_walks_while_it_grows_sees_its_own_length() -> None:
    values = AppendOnly([1, 2])
    seen = []
    for value in values:
        values.append(9)
        seen.append(value)
    assert seen == [1, 2]


def test_two_branches_of_one_value_stay_apart() -> None:
    trunk = AppendOnly([1])
    left, right = trunk.append(2), trunk.append(3)
    assert (list(trunk), list(left), list(right)) == ([1], [1, 2], [1, 3])


def test_only_an_older_value_copies() -> None:
    trunk = AppendOnly([1])
    left = trunk.append(2)
    assert left._cells is trunk._cells
    assert trunk.append(3)._cells is not trunk._cells


def test_it_is_no_other_sequence() -> None:
    assert AppendOnly([1]) != [1]
