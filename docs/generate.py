"""Writes the pages and the client's types that are made from code; with --check, only says which are stale."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from protocol_page import protocol_page, schema_file
from pydantic_core import PydanticUndefined
from turn_page import turn_page
from typescript_page import typescript_page

from ullage import settings

DOCS: Final = Path(__file__).parent
NOTE: Final = "<!-- Made by `make docs`; change the code instead. -->"


PAGE: Final = """# Settings

{note}

The first of these that names a setting decides it: {order}.
Of a cap (`cap_...`) in the user file and one that an editor names, the lower one holds, since a folder's own settings
may reach an editor's; so it may not set {forbidden} at all.

On the command line a setting is an option (`--output-cap 4096`, `--no-handoff`), in the environment a variable
(`ULLAGE_OUTPUT_CAP`), in the user file (`settings.toml` in the platform's folder for configuration) a key. A
workspace's own file may set only {allowed}; it is not read yet. `ullage serve`, `run` and `doctor` take every option;
`ullage doctor` tells what is set and by whom. A session that `run --session` goes on with keeps its own settings,
except those that the command line or the environment names.

{settings}

## Limits

Each package declares its own; all are numbers above zero. In the user file they are tables (`[limits.wire]`), in the
environment variables (`ULLAGE_LIMITS_WIRE_...`), in an editor's settings objects (`{{"limits": {{"tools": ...}}}}`).
The server goes by those of `editors` and `wire` before an editor says anything, so an editor cannot set these.

{limits}

## Fixed

What a log, a handoff record or a provider's rule rests on, and sizes that change no answer. Naming one of these as a
setting is an error.

{bounds}
"""


def settings_page() -> str:
    """docs/settings.md: sources, settings, limits."""
    order = ", ".join(source.value for source in settings.Source)
    allowed = ", ".join(f"`{name}`" for name in sorted(settings.WORKSPACE_MAY_SET))
    return PAGE.format(
        note=NOTE,
        order=order,
        allowed=allowed,
        forbidden=", ".join(f"`{name}`" for name in sorted(settings.EDITOR_MAY_NOT)),
        settings="\n".join(_setting_rows()),
        limits="\n".join(_number_rows("limit", _limits(), settings.limit_defaults())),
        bounds="\n".join(_number_rows("bound", settings.BOUNDS, settings.bounds())),
    )


def _limits() -> dict[str, object]:
    limits = settings.Limits()
    return {package.name: getattr(limits, package.name) for package in dataclasses.fields(limits)}


def _setting_rows() -> Iterator[str]:
    yield "| setting | default | what it is |"
    yield "| --- | --- | --- |"
    for name, field in settings.Settings.model_fields.items():
        yield f"| `{name}` | {_shown(field.default)} | {_cell(field.description or '')} |"


def _number_rows(kind: str, groups: Mapping[str, object], numbers: Mapping[str, int | float]) -> Iterator[str]:
    """Rows of limits or bounds; `groups` are the packages' dataclasses, `numbers` what their fields are."""
    yield f"| {kind} | {'default' if kind == 'limit' else 'value'} | what it is |"
    yield "| --- | --- | --- |"
    sentences = {
        f"limits.{package}.{name}": sentence
        for package, group in groups.items()
        for name, sentence in field_sentences(type(group))
    }
    for name, number in numbers.items():
        yield f"| `{name}` | {number:,} | {_cell(sentences[name])} |"


def field_sentences(kind: type) -> Iterator[tuple[str, str]]:
    """Name and docstring of each field of a dataclass."""
    module = inspect.getmodule(kind)
    assert module is not None
    tree = ast.parse(inspect.getsource(module))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind.__name__)
    for field, after in itertools.pairwise(body):
        match field, after:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(sentence))):
                yield name, sentence


def _shown(default: Any) -> str:
    if default is None or default is PydanticUndefined:
        return "–"
    return f"`{json.dumps(default)}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


PAGES: Final[dict[str, Callable[[], str]]] = {
    "settings.md": settings_page,
    "protocol.md": lambda: protocol_page(NOTE),
    "protocol.schema.json": schema_file,
    "turn.md": lambda: turn_page(NOTE),
    "../client-vscode/src/protocol.ts": typescript_page,
}


def main() -> int:
    stale = []
    for name, page in PAGES.items():
        path, text = DOCS / name, page()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
    verb = "stale, run `make docs`" if "--check" in sys.argv else "written"
    for name in stale:
        print(f"{(DOCS / name).resolve().relative_to(DOCS.resolve().parent)}: {verb}")
    return int("--check" in sys.argv and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
