"""Writes the pages of docs/ that are made from code; with --check, only says which are stale."""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from protocol_page import protocol_page, schema_file
from pydantic_core import PydanticUndefined
from turn_page import turn_page

from ullage import settings

DOCS: Final = Path(__file__).parent
NOTE: Final = "<!-- Made by `make docs`; change the code instead. -->"


PAGE: Final = """# Settings

{note}

The first of these that names a setting decides it: {order}.

On the command line a setting is an option (`--output-cap 4096`, `--no-handoff`), in the environment a variable
(`ULLAGE_OUTPUT_CAP`), in the user file (`settings.toml` in the platform's folder for configuration) a key. A
workspace's own file may set only {allowed}; it is not read yet.

{settings}

## Limits

Each package declares its own; all are numbers above zero. In the user file they are tables (`[limits.wire]`), in the
environment variables (`ULLAGE_LIMITS_WIRE_...`).

{limits}
"""


def settings_page() -> str:
    """docs/settings.md: sources, settings, limits."""
    order = ", ".join(source.value for source in settings.Source)
    allowed = ", ".join(f"`{name}`" for name in sorted(settings.WORKSPACE_MAY_SET))
    return PAGE.format(
        note=NOTE,
        order=order,
        allowed=allowed,
        settings="\n".join(_setting_rows()),
        limits="\n".join(_limit_rows()),
    )


def _setting_rows() -> Iterator[str]:
    yield "| setting | default | what it is |"
    yield "| --- | --- | --- |"
    for name, field in settings.Settings.model_fields.items():
        yield f"| `{name}` | {_shown(field.default)} | {_cell(field.description or '')} |"


def _limit_rows() -> Iterator[str]:
    yield "| limit | default | what it is |"
    yield "| --- | --- | --- |"
    sentences = {
        f"limits.{package}.{name}": sentence
        for package in settings.Limits.__slots__
        for name, sentence in limit_sentences(inspect.getmodule(type(getattr(settings.Limits(), package))))
    }
    for name, default in settings.limit_defaults().items():
        yield f"| `{name}` | {default:,} | {_cell(sentences[name])} |"


def limit_sentences(module: ModuleType | None) -> Iterator[tuple[str, str]]:
    """Name and docstring of each field of a module's `Limits`."""
    assert module is not None
    tree = ast.parse(inspect.getsource(module))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Limits")
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
        print(f"docs/{name}: {verb}")
    return int("--check" in sys.argv and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
