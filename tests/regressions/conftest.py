"""Regressions of sessions play on the same stage as their other tests."""

from tests.sessions.conftest import faulty, root, stage

__all__ = ["faulty", "root", "stage"]
