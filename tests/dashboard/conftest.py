"""Lakes that the pages are drawn from."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import simulated_lake
from streamlit.testing.v1 import AppTest


@pytest.fixture(scope="session")
def simulation() -> simulated_lake.Simulation:
    return simulated_lake.Simulation(nights=8)


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory, simulation: simulated_lake.Simulation) -> Path:
    """A store of eight nights on three devices."""
    root = tmp_path_factory.mktemp("lake")
    simulated_lake.build_lake(root, simulation)
    return root / "store"


@pytest.fixture(scope="session")
def one_run_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of a single run, with a failed, a skipped, a wrong and an invalid row."""
    root = tmp_path_factory.mktemp("one")
    simulated_lake.build_lake(root, simulated_lake.Simulation(nights=1, devices=simulated_lake.DEVICES[2:]))
    return root / "store"


@pytest.fixture(scope="session")
def hostile_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose names are markup, quotes and SQL."""
    root = tmp_path_factory.mktemp("hostile")
    simulated_lake.build_lake(root, simulated_lake.Simulation(nights=3, hostile=True))
    return root / "store"


Page = Callable[..., AppTest]


def _script(view: str) -> None:
    from dashboard.frame import VIEWS

    next(v for v in VIEWS if v.path == view).draw()


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Page:
    """Draws a page of a store: `page(store, "series", subject=...)`."""
    # Streamlit leaves its script in the place of the main module, which any process spawned later would then run.
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])

    def draw(store: Path, view: str, **parameters: str) -> AppTest:
        monkeypatch.setenv("KERNEL_OBSERVATORY_STORE", str(store))
        app = AppTest.from_function(_script, args=(view,), default_timeout=60)
        for name, value in parameters.items():
            app.query_params[name] = value
        app.run()
        assert not app.exception, [e.message for e in app.exception]
        return app

    return draw


def text_of(app: Any) -> str:
    """All HTML of a page."""
    return "\n".join(element.proto.body for element in app.get("html"))


@pytest.fixture
def said() -> Callable[[Any], str]:
    return text_of
