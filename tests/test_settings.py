"""Settings: who decides, what is refused and how it is said, and that the page about them is current (design 8)."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ullage import settings
from ullage.context.caps import Caps
from ullage.core.errors import BadInput
from ullage.settings import Source
from ullage.spending import caps

ROOT = Path(__file__).parents[1]
RANKED = [source for source in Source if source is not Source.DEFAULT]


@pytest.mark.parametrize("first", range(len(RANKED)))
def test_the_first_source_wins(first: int) -> None:
    said = {source: {"profile": f"p{rank}"} for rank, source in enumerate(RANKED) if rank >= first}
    resolved = settings.resolve(said)
    assert resolved.settings.profile == f"p{first}"
    assert resolved.sources["profile"] is RANKED[first]
    assert resolved.sources["window"] is Source.DEFAULT


def test_none_says_nothing() -> None:
    said = {Source.COMMAND_LINE: {"window": None}, Source.EDITOR: {"window": 32_000}}
    assert settings.resolve(said).settings.window == 32_000


def check_refused(source: Source, said: dict[str, Any], *words: str) -> None:
    """The error names the setting, its source and what to do."""
    with pytest.raises(BadInput) as caught:
        settings.resolve({source: said})
    report = caught.value.report
    for word in (*words, source.value):
        assert word in report.message
    assert report.hint or "limits." in report.message


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ({"windw": 5}, "windw"),
        ({"window": "large"}, "window"),
        ({"window": 10}, "window"),
        ({"output_cap": 0}, "output_cap"),
        ({"profile": "../x"}, "profile"),
        ({"compaction_auto": "perhaps"}, "compaction_auto"),
        ({"provider": "somebody"}, "provider"),
        ({"base_url": "ftp://example.org"}, "base_url"),
        ({"base_url": "https://"}, "base_url"),
        ({"base_url": "https://user:secret@example.org"}, "base_url"),
        ({"base_url": "https://example.org?key=secret"}, "base_url"),
        ({"limits.core.none": 1}, "limits.core.none"),
        ({"limits.core.steps_per_turn": 0}, "steps_per_turn"),
        ({"limits.core.steps_per_turn": "1.5"}, "steps_per_turn"),
        ({"limits.core.steps_per_turn": True}, "steps_per_turn"),
    ],
)
def test_bad_values_are_refused(said: dict[str, Any], word: str) -> None:
    check_refused(Source.ENVIRONMENT, said, word)


def test_an_answer_must_fit_the_window() -> None:
    with pytest.raises(BadInput, match="output_cap must be smaller than window"):
        settings.resolve({Source.EDITOR: {"window": 8_000, "output_cap": 8_000}})


@pytest.mark.parametrize("name", sorted(set(settings.names()) - settings.WORKSPACE_MAY_SET))
def test_a_workspace_file_may_not_set(name: str) -> None:
    check_refused(Source.WORKSPACE_FILE, {name: 1}, name)


def test_limits_are_settings() -> None:
    resolved = settings.resolve({Source.USER_FILE: {"limits.core.steps_per_turn": "5"}})
    assert resolved.limits.core.steps_per_turn == 5
    assert resolved.limits.wire == settings.Limits().wire


def test_every_package_s_limits_and_bounds_are_composed_and_frozen() -> None:
    files = (ROOT / "server" / "ullage").glob("*/limits.py")
    modules = {path.parent.name: importlib.import_module(f"ullage.{path.parent.name}.limits") for path in files}
    composed = {"Limits": {field.name for field in dataclasses.fields(settings.Limits)}, "Bounds": set(settings.BOUNDS)}
    for kind, packages in composed.items():
        declared = {package for package, module in modules.items() if hasattr(module, kind)}
        assert declared == packages
        for package in declared:
            made = getattr(modules[package], kind)()
            with pytest.raises((AttributeError, TypeError)):
                setattr(made, dataclasses.fields(made)[0].name, 1)


@pytest.mark.parametrize("name", settings.bounds())
def test_what_is_fixed_may_not_be_set(name: str) -> None:
    """By nobody, and not silently either: a variable that would set it is an error too."""
    check_refused(Source.USER_FILE, {name: settings.bounds()[name]}, name, "is fixed at")
    check_refused(Source.ENVIRONMENT, settings.from_environment({settings.variable(name): "1"}), name, "is fixed at")


def test_an_editor_cannot_send_prompts_elsewhere() -> None:
    """A folder's own settings may reach an editor's."""
    check_refused(Source.EDITOR, {"base_url": "https://example.org"}, "base_url")
    said = {Source.USER_FILE: {"base_url": "https://example.org/v1", "provider": "anthropic", "summary_model": "s"}}
    assert settings.resolve(said).settings.base_url == "https://example.org/v1"


@pytest.mark.parametrize(
    ("name", "user", "editor", "holds"),
    [
        ("cap_turn_tokens", 5_000, 4_000, 4_000),
        ("cap_turn_tokens", 5_000, 6_000, 5_000),
        ("cap_turn_tokens", "5000", 6_000.0, 5_000),
        ("cap_session_dollars", "0.50", "0.5000001", "0.50"),
        ("cap_session_dollars", "0.50", 0.25, "0.25"),
        ("cap_day_dollars", None, 9, "9"),
        ("window", 8_000, 9_000, 9_000),
    ],
)
def test_an_editor_may_lower_a_cap_and_not_raise_it(name: str, user: object, editor: object, holds: object) -> None:
    resolved = settings.resolve({Source.USER_FILE: {name: user}, Source.EDITOR: {name: editor}})
    assert getattr(resolved.settings, name) == holds
    assert resolved.sources[name] is (Source.USER_FILE if str(holds) == str(user) else Source.EDITOR)
    above = settings.resolve({Source.USER_FILE: {name: user}, Source.ENVIRONMENT: {name: "70000"}})
    assert str(getattr(above.settings, name)) == "70000", "their own word raises it"


def test_an_editor_does_not_say_what_models_cost() -> None:
    """With prices of its own a cap in dollars would hold nothing."""
    check_refused(Source.EDITOR, {"prices": "m=0.01/0.01"}, "prices")


@pytest.mark.parametrize("name", ["limits.wire.body", "limits.editors.update_bytes"])
def test_an_editor_cannot_set_what_is_needed_before_it_speaks(name: str) -> None:
    check_refused(Source.EDITOR, {name: 1}, name, "before an editor can say anything")
    assert settings.resolve({Source.USER_FILE: {name: 1}})


def test_the_environment() -> None:
    environ = {
        "ULLAGE_WINDOW": "200000",
        "ULLAGE_HANDOFF": "off",
        "ULLAGE_MODEL": "",
        "ULLAGE_DATA": "x",
        "WINDOW": "5",
    }
    environ["ULLAGE_LIMITS_CORE_STEPS_PER_TURN"] = "7"
    resolved = settings.resolve({Source.ENVIRONMENT: settings.from_environment(environ)})
    assert (resolved.settings.window, resolved.settings.handoff, resolved.settings.model) == (200_000, False, None)
    assert resolved.limits.core.steps_per_turn == 7


def test_no_two_settings_share_a_variable() -> None:
    assert len({settings.variable(name) for name in settings.names()}) == len(settings.names())


def test_the_command_line() -> None:
    parser = argparse.ArgumentParser()
    settings.add_arguments(parser)
    args = parser.parse_args(["--window", "64000", "--no-handoff", "--home", "~/x"])
    said = settings.from_arguments(args)
    assert {name: value for name, value in said.items() if value is not None}.keys() == {"window", "handoff", "home"}
    resolved = settings.resolve({Source.COMMAND_LINE: said})
    assert (resolved.settings.window, resolved.settings.handoff) == (64_000, False)
    assert resolved.settings.home == Path.home() / "x"
    assert "80 %" in parser.format_help()


def test_a_settings_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    assert settings.from_file(file) == {}
    file.write_text('profile = "blade"\n[limits.core]\nsteps_per_turn = 9\n', encoding="utf-8")
    assert settings.from_file(file) == {"profile": "blade", "limits.core.steps_per_turn": 9}
    for content in (b"profile = ", b"\xff"):
        file.write_bytes(content)
        with pytest.raises(BadInput, match=r"settings\.toml"):
            settings.from_file(file)


def test_the_page_names_every_setting() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    known = (*settings.names(), *settings.bounds())
    assert [name for name in known if page.count(f"| `{name}` |") != 1] == []


def test_the_generator_finds_stale_pages() -> None:
    """`make check` runs the same; here only that it looks at this page."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert "settings.md: stale" not in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("said", "micro_dollars"), [(2.5, 2_500_000), (5, 5_000_000), ("0.000001", 1), ("$1.10", 1_100_000), (None, None)]
)
def test_amounts_of_money_become_whole_micro_dollars(said: object, micro_dollars: int | None) -> None:
    """A settings file may hold them as numbers; no float goes further than its text."""
    resolved = settings.resolve({Source.USER_FILE: {"cap_day_dollars": said, "cap_turn_tokens": 9}})
    assert caps(resolved.settings) == Caps(day_dollars=micro_dollars, turn_tokens=9)


@pytest.mark.parametrize("said", [True, 0, -1, "1e3", [1]])
def test_amounts_that_are_none(said: object) -> None:
    with pytest.raises(BadInput, match="cap_day_dollars"):
        settings.resolve({Source.USER_FILE: {"cap_day_dollars": said}})
