"""The command as a person calls it: words in, exit code and two streams out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ullage import cli
from ullage.cli import serve
from ullage.providers.keys import Keys


class Said(NamedTuple):
    """What a command line came to."""

    code: int
    out: str
    err: str


class Shell:
    """A folder to work on, a home beside it, an environment without a key, and commands in this process."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.workspace, self.home = folder / "workspace", folder / "home"
        self.workspace.mkdir()
        (self.workspace / "a.py").write_text("print('a')\n", encoding="utf-8")
        self._folder, self._patch, self._capsys = folder, monkeypatch, capsys
        for variable in ("ULLAGE_MODEL", "ULLAGE_BASE_URL", "ULLAGE_PROVIDER", "ULLAGE_WINDOW", serve.SCRIPT):
            monkeypatch.delenv(variable, raising=False)
        self.set("ULLAGE_HOME", str(self.home))
        self.set("XDG_CONFIG_HOME", str(folder / "config"))
        self.key(None)

    def set(self, variable: str, value: str) -> None:
        self._patch.setenv(variable, value)

    def key(self, key: str | None) -> None:
        """The key that the environment has; the log of the tests is left alone."""

        def take_keys() -> Keys:
            keys = Keys()
            keys.take({"ANTHROPIC_API_KEY": key or ""})
            return keys

        self._patch.setattr(serve, "take_keys", take_keys)

    def script(self, *lines: dict[str, Any]) -> Path:
        """Answers from here on."""
        path = self._folder / "script.json"
        path.write_text(json.dumps({"script": lines}), encoding="utf-8")
        self.set(serve.SCRIPT, str(path))
        return path

    def __call__(self, *words: str) -> Said:
        self._capsys.readouterr()
        code = cli.main(words)
        return Said(code, *self._capsys.readouterr())

    def run(self, *words: str) -> Said:
        return self("run", str(self.workspace), *words)

    def session(self) -> str:
        """The id of the session that changed last."""
        return self("sessions", "list", str(self.workspace)).out.split()[0]


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.setattr("ullage.providers.keys.has_keyring", lambda: False)
    monkeypatch.setattr("ullage.cli.doctor.has_keyring", lambda: False)
    return Shell(tmp_path, monkeypatch, capsys)
