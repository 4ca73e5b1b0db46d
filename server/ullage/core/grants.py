"""What a person allows beyond one call."""

from __future__ import annotations

from dataclasses import dataclass

from ullage.core.messages import Op


@dataclass(frozen=True, slots=True)
class PermissionGranted:
    """A person allowed calls of a kind for the rest of this session: writing files, or one exact command (`rule`).

    No fork takes it along, and setting the permission mode takes it back.
    """

    op: Op
    rule: str
