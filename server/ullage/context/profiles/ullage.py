"""Our own profile, the default: the rules of `ullage.context` as they stand."""

from __future__ import annotations

from ullage.context.limits import SHARES
from ullage.context.profiles.profile import Profile

ULLAGE = Profile("ullage", SHARES)
