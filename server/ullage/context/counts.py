"""What a token count is."""

from __future__ import annotations


def is_count(value: object) -> bool:
    """Whether a value is a non-negative whole number that JavaScript could hold too; `True` and `7.0` are not."""
    return type(value) is int and 0 <= value < 2**53
