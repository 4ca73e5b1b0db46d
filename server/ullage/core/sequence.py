"""An append-only sequence that shares its storage: appending is O(1), and every earlier value stays what it was.

Invariant: a value sees the first `n` cells of a list that only ever grows, and only the newest value grows it in
place; an older one copies first. So a frozen state can hold it and a fold over n events costs n, not n squared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar, overload

T = TypeVar("T")


class AppendOnly(Sequence[T]):
    """A frozen sequence. `append` and `extend` return a new value."""

    __slots__ = ("_cells", "_length")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._cells = list(items)
        self._length = len(self._cells)

    def append(self, item: T) -> AppendOnly[T]:
        return self.extend((item,))

    def extend(self, items: Iterable[T]) -> AppendOnly[T]:
        cells = self._cells if len(self._cells) == self._length else self._cells[: self._length]
        grown: AppendOnly[T] = AppendOnly.__new__(AppendOnly)
        cells.extend(items)
        grown._cells, grown._length = cells, len(cells)
        return grown

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self._cells[i] for i in range(*index.indices(self._length))]
        if not -self._length <= index < self._length:
            raise IndexError(index)
        return self._cells[index if index >= 0 else index + self._length]

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        # Not iter(list): another value may grow the shared cells while we walk.
        for index in range(self._length):
            yield self._cells[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AppendOnly) and len(self) == len(other) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # equality is by content

    def __repr__(self) -> str:
        return f"AppendOnly({list(self)!r})"
