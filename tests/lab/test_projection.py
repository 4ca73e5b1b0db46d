"""Projection over recorded sessions: what is compared, and how it is told."""

from __future__ import annotations

from tests.importers.recorded import FILES, needs_data, session
from tests.importers.samples import COUNTER, Claude, use

from ullage.importers.claude_code import read
from ullage.lab.projection import errors, projections


def billed(prompt: int, output: int = 10) -> dict[str, int]:
    return {"input_tokens": prompt, "output_tokens": output}


def test_errors_are_shares_of_what_was_billed() -> None:
    found = errors([0.1, -0.2, 0.0, 0.4])
    assert (found.steps, found.median, found.p95, found.too_low) == (4, 15.0, 40.0, 25.0)
    assert errors([]).steps == 0


def test_each_step_is_told_with_what_stands_out() -> None:
    session = Claude().user("go").answer("m1", use("c1", "Read"), usage=billed(5_000))
    session.result("c1", "x" * 4_000).answer("m2", use("c2", "Read"), usage=billed(6_300))
    session.result("c2", "x" * 400).answer("m3", use("c3", "Read"), usage=billed(16_000))
    session.result("c3", "x" * 400).answer("m4", use("c4", "Read"), usage=billed(9_000))
    session.add("system", subtype="compact_boundary").user("Summary.", isCompactSummary=True)
    session.user("on").answer("m5", use("c5", "Read"), usage=billed(5_100))
    found = projections(read(session.content, COUNTER).entries)
    assert [step.measured for step in found] == [True, True, True, False]
    assert found[0].learned > found[0].plain and abs(found[0].error) < abs(found[0].plain_error)
    assert "no record holds" in found[1].why and "left out" in found[2].why and "build on" in found[3].why
    assert abs(found[3].error) < 0.05


@needs_data
def test_projection_is_better_than_the_reference_on_record() -> None:
    """Pooled: median and p95 no worse than the published 0.10 / 0.91 % and 0.01 / 0.79 %, too low less than half."""
    steps = [step for name in FILES for step in projections(session(name).entries) if step.measured]
    for family, most in (("claude", (0.10, 0.91)), ("gpt", (0.01, 0.79))):
        pooled = [step for step in steps if step.model.startswith(family)]
        ours, plain = errors([step.error for step in pooled]), errors([step.plain_error for step in pooled])
        assert ours.median <= most[0] and ours.p95 <= most[1] and ours.too_low < 50
        assert ours.p95 <= plain.p95
