"""Keys: who gives them, and that they stay inside."""

from __future__ import annotations

import logging
import sys
from types import ModuleType

import pytest
from tests.providers.claude import KEY

from ullage.core.errors import BadInput
from ullage.providers import keys as module
from ullage.providers.keys import ANTHROPIC, Keys, MaskingFilter

VARIABLE = "ANTHROPIC_API_KEY"


def ring(monkeypatch: pytest.MonkeyPatch, key: str | None) -> list[tuple[str, str]]:
    """A keyring that holds a key; what it was asked."""
    asked: list[tuple[str, str]] = []
    fake = ModuleType("keyring")

    def get_password(service: str, user: str) -> str | None:
        asked.append((service, user))
        if key == "locked":
            raise RuntimeError("locked")
        return key

    fake.get_password = get_password  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", fake)
    monkeypatch.setattr(module, "has_keyring", lambda: True)
    return asked


def test_the_editor_comes_before_the_environment_and_that_before_the_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ring(monkeypatch, "from-the-ring")
    keys, environ = Keys(), {VARIABLE: f" {KEY}\n"}
    assert keys.likely(ANTHROPIC) and keys.source(ANTHROPIC) is None, "a keyring that nobody looked into may have one"
    assert (keys.get(ANTHROPIC), keys.source(ANTHROPIC)) == ("from-the-ring", "keyring")
    keys.take(environ)
    assert environ == {}, "no process that is started later may inherit it"
    assert (keys.get(ANTHROPIC), keys.source(ANTHROPIC)) == (KEY, "environment")
    keys.give(ANTHROPIC, "given")
    assert (keys.get(ANTHROPIC), keys.source(ANTHROPIC)) == ("given", "editor")
    keys.give(ANTHROPIC, None)
    assert keys.get(ANTHROPIC) == KEY
    assert asked == [("ullage", ANTHROPIC)], "it is asked once"


@pytest.mark.parametrize("held", [None, "locked"])
def test_a_keyring_without_a_key_is_no_error(monkeypatch: pytest.MonkeyPatch, held: str | None) -> None:
    ring(monkeypatch, held)
    keys = Keys()
    assert keys.get(ANTHROPIC) is None
    assert not keys.likely(ANTHROPIC)


@pytest.mark.parametrize(
    ("provider", "key"), [("other", "abc"), (ANTHROPIC, "two words"), (ANTHROPIC, "k\u00e9y"), (ANTHROPIC, "k" * 5_000)]
)
def test_what_is_no_key_is_refused_without_saying_it(provider: str, key: str) -> None:
    with pytest.raises(BadInput) as caught:
        Keys().give(provider, key)
    assert key not in repr(caught.value.report)


def test_no_text_of_ours_holds_one(caplog: pytest.LogCaptureFixture) -> None:
    """Neither what is shown nor what is logged, tracebacks included; what only looks like a key goes too."""
    keys = Keys()
    keys.give(ANTHROPIC, "plain-secret")
    assert "plain-secret" not in repr(keys)
    assert keys.mask(f"a plain-secret and {KEY}!") == "a [key] and [key]!"
    caplog.handler.addFilter(MaskingFilter(keys))
    try:
        raise ValueError("with plain-secret in it")
    except ValueError:
        logging.getLogger("some.module").exception("sent %s", "plain-secret")
    assert caplog.text.count("[key]") == 3
    assert "plain-secret" not in caplog.text
