"""Every way a call of the Messages API fails, as a typed error that says what to do next.

Rows before branches: an error is known by its status or its type. Only an overflow is known by its wording, since the
API has no code for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from ullage.core.errors import ErrorReport
from ullage.core.ports import ProviderFailure


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of failure. `again` says that the same request may succeed later."""

    code: str
    says: str
    hint: str
    again: bool = False


_LATER = "Send once more in a while."
BROKEN: Final = Row("provider_broken", "The provider had an internal error", _LATER, again=True)
REFUSED: Final = Row("request_refused", "The provider refused the request", "Its message says why; try another model.")
NO_CONNECTION: Final = Row(
    "no_connection", "The provider could not be reached", "Check the network and the setting base_url.", again=True
)
TIMEOUT: Final = Row("provider_timeout", "The provider did not answer in time", _LATER, again=True)
CUT: Final = Row("stream_cut", "The answer was cut off before it ended", "Send once more.")
TOO_LARGE: Final = Row(
    "request_too_large", "The request has too many bytes", "Compact the session, or leave out images."
)
OVERFLOW: Final = Row("context_overflow", "The request does not fit", "Compact the session, or use a larger window.")
NO_KEY: Final = Row(
    "no_key",
    "There is no key for Anthropic",
    "Set ANTHROPIC_API_KEY, or give one in the editor; docs/providers.md has all ways.",
)
MODEL_REFUSED: Final = Row(
    "model_refused", "The model declined to answer", "Ask in another way, or go back before the last prompt."
)
PAUSED: Final = Row("answer_paused", "The provider paused a long answer", "Send 'go on' to have the rest.")

_BY_STATUS: Final = {
    400: REFUSED,
    401: Row("key_refused", "The provider does not accept the key", "Set another key; docs/providers.md says how."),
    402: Row("payment_required", "The account has no credit", "Add credit at the provider, then send once more."),
    403: Row("not_permitted", "The key may not use this", "Use a key or a model that is allowed."),
    404: Row("model_unknown", "The provider does not know this model", "Check the settings model and base_url."),
    408: TIMEOUT,
    409: BROKEN,
    413: TOO_LARGE,
    422: REFUSED,
    429: Row("rate_limited", "The provider's rate limit is reached", "Wait a moment, then send once more.", again=True),
    500: BROKEN,
    503: Row("provider_unavailable", "The provider is not available", _LATER, again=True),
    504: TIMEOUT,
    529: Row("provider_overloaded", "The provider is overloaded", _LATER, again=True),
}
_BY_TYPE: Final = {
    "api_error": _BY_STATUS[500],
    "authentication_error": _BY_STATUS[401],
    "billing_error": _BY_STATUS[402],
    "invalid_request_error": _BY_STATUS[400],
    "not_found_error": _BY_STATUS[404],
    "overloaded_error": _BY_STATUS[529],
    "permission_error": _BY_STATUS[403],
    "rate_limit_error": _BY_STATUS[429],
    "request_too_large": TOO_LARGE,
    "timeout_error": TIMEOUT,
}

# The API's own words (documentation and issue threads), then those of endpoints that imitate it.
_TOO_LONG = re.compile(r"prompt is too long: (?P<used>\d+) tokens > (?P<limit>\d+) maximum")
_NO_ROOM = re.compile(r"exceed context limit: (?P<used>\d+) \+ (?P<asked>\d+) > (?P<limit>\d+)")
_ELSEWHERE = (
    re.compile(r"maximum context length is (?P<limit>\d+) tokens(?:.*?(?:requested|resulted in) (?P<used>\d+))?", re.S),
    re.compile(r"request \((?P<used>\d+) tokens\) exceeds the available context size \((?P<limit>\d+) tokens\)"),
    re.compile(r"exceeds? the (?:available|maximum|model's) context|context_length_exceeded|prompt is too long"),
)


@dataclass(frozen=True, slots=True)
class Failed:
    """A failed call: what it is, and how many seconds the provider says to wait.

    `room` is the output cap that would have fitted, where only that was too large.
    """

    failure: ProviderFailure
    wait: float | None = None
    room: int | None = None


def from_status(
    status: int, kind: str | None, message: str, headers: Any, *, estimate: int = 0, window: int | None = None
) -> Failed:
    """An HTTP error, or an error event of a stream (status 200: its type decides).

    `estimate` is our own count of the request and `window` what we believe: words alone make no overflow of a request
    that is nowhere near it.
    """
    if status == 413 or kind == "request_too_large":
        return Failed(failed(TOO_LARGE, message, overflow=True, status=status))
    if status in (200, 400, 413, 422) and (found := _overflow(message, estimate, window)):
        return found
    row = _BY_TYPE.get(kind or "") if status == 200 or status not in _BY_STATUS else _BY_STATUS[status]
    row = row or (BROKEN if status == 200 or status >= 500 else REFUSED)
    row = replace(row, again=_again(row, headers))
    return Failed(failed(row, message, status=status), retry_after(headers))


def _overflow(message: str, estimate: int, window: int | None) -> Failed | None:
    if match := _NO_ROOM.search(message):
        used, limit = int(match["used"]), int(match["limit"])
        room = limit - used
        return Failed(_too_long(message, used, limit), room=room if room > 0 else None)
    if match := _TOO_LONG.search(message):
        return Failed(_too_long(message, int(match["used"]), int(match["limit"])))
    for pattern in _ELSEWHERE:
        if match := pattern.search(message):
            named = {name: int(figure) for name, figure in match.groupdict().items() if figure}
            if "limit" not in named and window is not None and estimate * 2 < window:
                return None
            return Failed(_too_long(message, named.get("used"), named.get("limit")))
    return None


def _too_long(message: str, used: int | None, limit: int | None) -> ProviderFailure:
    figures = {"prompt": used, "window": limit, "status": 400}
    known = {name: figure for name, figure in figures.items() if figure is not None}
    return failed(OVERFLOW, message, overflow=True, limit=limit, **known)


def _again(row: Row, headers: Any) -> bool:
    said = headers.get("x-should-retry") if headers else None
    return row.again if said not in ("true", "false") else said == "true"


def retry_after(headers: Any) -> float | None:
    """Seconds that the provider says to wait; None where it says nothing that is a number."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except (AttributeError, ValueError):
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    return None


def failed(
    row: Row, message: str = "", *, overflow: bool = False, limit: int | None = None, **figures: int | str
) -> ProviderFailure:
    """A failure of this kind, with what the provider said of it."""
    text = f"{row.says}: {_short(message)}" if message.strip() else f"{row.says}."
    report = ErrorReport(row.code, text, row.hint, tuple(figures.items()))
    return ProviderFailure(report, overflow=overflow, limit=limit, transient=row.again)


_LONGEST = 400  # characters of a provider's message that are shown


def _short(message: str) -> str:
    """One line; a page of HTML says nothing to a person."""
    if message.lstrip().startswith("<"):
        return "it answered with a page of HTML"
    line = " ".join(message.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def rows() -> Iterable[Row]:
    """Every kind there is, for the documentation."""
    known = (*_BY_STATUS.values(), NO_CONNECTION, CUT, OVERFLOW, NO_KEY, MODEL_REFUSED, PAUSED)
    return dict.fromkeys(known)
