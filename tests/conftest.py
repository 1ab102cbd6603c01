"""Settings of all tests: property tests draw the same examples on every machine, unless asked for new ones."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# Before torch is imported: two workers of two threads each on two cores wait for each other at every small operation.
os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile("repeatable", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The end-to-end files first: they take longest, and a file stays on one worker."""
    items.sort(key=lambda item: "e2e" not in item.path.parts)
