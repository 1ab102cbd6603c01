"""What every page stands in: the navigation, the style sheet, and words in the place of a traceback."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import streamlit as st

from dashboard import markup, people
from dashboard.data.source import reachable, store_uri
from dashboard.style import style_sheet
from store.lake.errors import StoreError

LOG = logging.getLogger(__name__)
ICON = Path(__file__).with_name("icon.svg")


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A page: where it is, what it is called, which module draws it, which parameters of its address it remembers."""

    path: str
    title: str
    module: str
    remembers: tuple[str, ...] = ()

    def draw(self) -> None:
        """Draws the page for who may see it; whatever goes wrong is said in words, and the log has the rest."""
        if not people.require_sign_in():
            return
        _recall(self)
        if error := reachable():
            _no_store(error)
            return
        try:
            draw: Callable[[], None] = import_module(self.module).draw
            draw()
        except StoreError as error:
            st.html(markup.headline(markup.say(f"{self.title}: the store does not answer."), str(error)))
        except Exception as error:  # Streamlit's own control flow derives from BaseException
            LOG.exception("page %s", self.path)
            said = f"{type(error).__name__}: {error}"
            st.html(markup.headline(markup.say(f"{self.title}: this page failed; the others still work."), said))
            st.html(markup.note("The server's log has the details; please report it with the address of this page."))


VIEWS: tuple[View, ...] = (
    View(path="overview", title="Overview", module="dashboard.views.overview"),
    View(path="findings", title="Findings", module="dashboard.views.findings"),
    View(path="series", title="Series", module="dashboard.views.series", remembers=("subject", "run")),
    View(path="roofline", title="Roofline", module="dashboard.views.roofline", remembers=("device",)),
    View(path="shapes", title="Shapes", module="dashboard.views.shapes", remembers=("device",)),
    View(path="compare", title="Compare", module="dashboard.views.compare", remembers=("device", "a", "b", "of")),
    View(path="memory", title="Memory", module="dashboard.views.memory", remembers=("device",)),
    View(path="collectives", title="Collectives", module="dashboard.views.collectives", remembers=("device",)),
    View(path="numerics", title="Numerics", module="dashboard.views.numerics", remembers=("device",)),
    View(path="static", title="Static", module="dashboard.views.static", remembers=("kernel", "chip")),
    View(path="fleet", title="Fleet", module="dashboard.views.fleet", remembers=("unit", "run")),
    View(path="runs", title="Runs", module="dashboard.views.runs", remembers=("run",)),
    View(path="policies", title="Policies", module="dashboard.views.policies", remembers=("device",)),
)


def _recall(view: View) -> None:
    """Parameters of the address survive a walk through the navigation, which drops them."""
    memory: dict[str, dict[str, str]] = st.session_state.setdefault("addresses", {})
    given = {name: st.query_params[name] for name in view.remembers if name in st.query_params}
    if given:
        memory[view.path] = given
        return
    for name, value in memory.get(view.path, {}).items():
        st.query_params[name] = value


def _no_store(error: StoreError) -> None:
    st.html(markup.headline(markup.say("There is no store to show yet."), str(error)))
    way_out = markup.join(
        [
            "Measure this machine with ",
            markup.element("code", "collector run --suite quick"),
            ", or name another store with ",
            markup.element("code", "--store"),
            ". This page looks again when it is loaded again.",
        ]
    )
    st.html(markup.empty(f"The dashboard shows {store_uri()}.", way_out))


def run() -> None:
    """One run of the script: navigation, style, page."""
    pages = []
    for number, view in enumerate(VIEWS):
        pages.append(st.Page(view.draw, title=view.title, url_path=view.path, default=number == 0))
    page = st.navigation(pages, position="top")
    st.set_page_config(page_title=f"{page.title} · Kernel Observatory", page_icon=str(ICON), layout="wide")
    st.html(style_sheet())
    page.run()
