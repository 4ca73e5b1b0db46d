"""Pages for people that name things in the code: the names must exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_every_invariant_names_tests_that_exist() -> None:
    """A rule without a guard is a wish."""
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    rules = page.partition("## Invariants")[2].partition("## Decisions")[0]
    unguarded = [rule for rule in re.split(r"\n\* ", rules)[1:] if "`test_" not in rule]
    assert unguarded == []
    assert sorted(set(re.findall(r"`(test_\w+)`", rules)) - _test_names()) == []


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in (ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md"))
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []


def _test_names() -> set[str]:
    found: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(node.name)
    return found
