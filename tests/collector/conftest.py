"""What tests of real runs share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def own_cores() -> Iterator[None]:
    """Waiting for a core marks nothing: the tests keep every core busy, and what is tested here is something else."""
    from collector.node import marks

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(marks.WAIT_SHARE, marks.CORE_WAIT, 2.0)  # beyond any share
        yield
