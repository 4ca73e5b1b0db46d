"""Errors that a person may see. One family; each says what happened and what to do next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """An error as a value: logged, sent to clients, never a traceback.

    `code` is a stable snake_case word; `hint` says what to do next; `data` holds figures and names.
    """

    code: str
    message: str
    hint: str = ""
    data: tuple[tuple[str, str | int], ...] = field(default=())


class UllageError(Exception):
    """Base of every error we raise on purpose; `report` is what a client sees.

    UllageError
    ├── BadInput            the caller's fault: parameters, paths, names
    ├── SessionUnavailable  unknown, busy (held elsewhere), damaged, read-only, other root
    ├── StorageFailed       the disk refused; the session is read-only from then on
    ├── ContextFailed       does not fit, nothing to gain, no progress, checkpoint refused
    └── Refused             the workspace door or a permission said no
        └── NotAsApproved   a call would do something else than what was allowed
    """

    default_code: ClassVar[str] = "internal"

    def __init__(self, message: str, *, hint: str = "", code: str | None = None, **data: str | int) -> None:
        super().__init__(message)
        self.report = ErrorReport(code or self.default_code, message, hint, tuple(data.items()))


class BadInput(UllageError):
    default_code = "bad_input"


class SessionUnavailable(UllageError):
    default_code = "session_unavailable"


class StorageFailed(UllageError):
    default_code = "storage_failed"


class ContextFailed(UllageError):
    default_code = "context_failed"


class Refused(UllageError):
    default_code = "refused"


class NotAsApproved(Refused):
    default_code = "not_as_approved"
