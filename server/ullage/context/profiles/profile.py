"""A profile: a named way of keeping a session inside its window."""

from __future__ import annotations

from dataclasses import dataclass

from ullage.context.limits import PRUNING, Pruning, Shares


@dataclass(frozen=True, slots=True)
class Profile:
    """The policies that a compaction is planned and assembled with. `name` stands in every report."""

    name: str
    shares: Shares
    aligned_summary: bool = True
    """A model's summary is asked for behind the session's last request, so that its cache holds."""
    pruning: Pruning = PRUNING
    """What is left out without a summary."""
    learns: bool = True
    """Estimates are corrected by the ratio that the session learned for its model."""
