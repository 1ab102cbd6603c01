"""What tests of real runs share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def own_cores() -> Iterator[None]:
    """Waiting for a core marks nothing: other tests and other guests take them, and something else is tested here."""
    from collector.node import marks

    with pytest.MonkeyPatch.context() as patch:
        for metric in (marks.CORE_WAIT, marks.STEAL):
            patch.setitem(marks.WAIT_SHARE, metric, 2.0)  # beyond any share
        yield
