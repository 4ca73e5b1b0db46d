"""Keys of providers, and keeping them to ourselves.

Invariant: a key leaves this module only for the one who signs requests with it. It is in no `repr`, no log, no session
and no child's environment: `take` removes it from the environment, and `mask` blots it out of any text that is shown.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import MutableMapping
from functools import cache
from importlib.util import find_spec
from typing import Final, Literal

from ullage.core.errors import BadInput

ANTHROPIC: Final = "anthropic"
VARIABLES: Final = {ANTHROPIC: "ANTHROPIC_API_KEY"}
"""Provider to the environment variable of its key."""
MASK: Final = "[key]"
LONGEST: Final = 4_096
"""Characters of the longest key that is taken; none is near that."""

_LOOKS_LIKE_ONE = re.compile(r"sk-[A-Za-z0-9_-]{16,}")
_SERVICE: Final = "ullage"
"""Name under which a user's keyring holds our keys; the user name in it is the provider."""

Source = Literal["editor", "environment", "keyring"]

_log = logging.getLogger(__name__)


class Keys:
    """The keys of one process: first what the editor gave, then the environment, then the user's keyring.

    The keyring may ask a person, so it is looked into only by `get`, which may take long: call it in a thread.
    """

    def __init__(self) -> None:
        self._given: dict[str, str] = {}
        self._taken: dict[str, str] = {}
        self._ring: dict[str, str | None] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Keys({', '.join(sorted({*self._given, *self._taken})) or 'none'})"

    def take(self, environ: MutableMapping[str, str]) -> None:
        """Take the keys out of the environment, so that no process that we start inherits them, or finds them in what
        the system shows of ours."""
        for provider, variable in VARIABLES.items():
            if key := environ.get(variable, "").strip():
                self._taken[provider] = key
                if environ is os.environ:
                    _wipe(variable)
            environ.pop(variable, None)

    def give(self, provider: str, key: str | None) -> None:
        """What a person said in the editor; None or nothing takes it back.

        Raises:
            BadInput: a provider that has no key, or a key that is none. Its text is in no message.
        """
        if provider not in VARIABLES:
            known = ", ".join(VARIABLES)
            raise BadInput(f"There is no provider {provider[:80]!r} with a key.", hint=f"Known: {known}.")
        key = (key or "").strip()
        if not key:
            self._given.pop(provider, None)
        elif len(key) > LONGEST or not key.isascii() or not key.isprintable() or " " in key:
            raise BadInput("That is not a key.", hint="Copy it again, without spaces or line ends.", code="bad_key")
        else:
            self._given[provider] = key

    def source(self, provider: str) -> Source | None:
        """Who gave the key that is used: editor, environment or keyring; None: there is none that we know of."""
        if provider in self._given:
            return "editor"
        if provider in self._taken:
            return "environment"
        return "keyring" if self._ring.get(provider) else None

    def likely(self, provider: str) -> bool:
        """Whether there is a key, or a keyring that nobody looked into yet."""
        return self.source(provider) is not None or (provider not in self._ring and has_keyring())

    def at_hand(self, provider: str) -> str | None:
        """The key, as far as nobody need be asked for it."""
        return self._given.get(provider) or self._taken.get(provider) or self._ring.get(provider)

    def get(self, provider: str) -> str | None:
        """The key, or None."""
        found = self.at_hand(provider)
        if found or not has_keyring():
            return found
        with self._lock:
            if provider not in self._ring:
                self._ring[provider] = _from_keyring(provider)
            return self._ring[provider]

    def mask(self, text: str) -> str:
        """The text without any key of ours, and without what looks like one."""
        for key in (*self._given.values(), *self._taken.values(), *self._ring.values()):
            if key:
                text = text.replace(key, MASK)
        return _LOOKS_LIKE_ONE.sub(MASK, text)


class MaskingFilter(logging.Filter):
    """Blots keys out of every record, tracebacks included. It belongs on handlers."""

    def __init__(self, keys: Keys) -> None:
        super().__init__()
        self._keys = keys
        self._format = logging.Formatter().formatException

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._keys.mask(record.getMessage()), ()
        if record.exc_info and not record.exc_text:
            record.exc_text = self._format(record.exc_info)
        if record.exc_text:
            record.exc_text = self._keys.mask(record.exc_text)
        return True


def _wipe(variable: str) -> None:
    """Overwrite a variable where it lies: unsetting it leaves its text in what `/proc/<pid>/environ` shows."""
    import ctypes

    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_void_p
    address = getenv(variable.encode())
    if address:
        ctypes.memset(address, ord("x"), len(ctypes.string_at(address)))


@cache
def has_keyring() -> bool:
    """Whether the optional package `keyring` is installed."""
    return find_spec("keyring") is not None


def _from_keyring(provider: str) -> str | None:
    import keyring  # type: ignore[import-not-found,unused-ignore]

    try:
        found = keyring.get_password(_SERVICE, provider)
    except Exception as error:  # a locked or broken keyring is no reason to fail: there are other ways
        _log.warning("The keyring was not readable: %s", type(error).__name__)
        return None
    return str(found).strip() if found else None
