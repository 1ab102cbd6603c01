"""Names are text wherever they are shown: in HTML, in links, in downloads, in figures."""

from __future__ import annotations

import base64
import html
from html.parser import HTMLParser

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard import address, markup, palette, sparkline, style
from dashboard.export import csv_bytes, harmless, parquet_bytes
from dashboard.figures.template import label
from dashboard.tables import Column, HeatCell, heat_table, table, two_lines

HOSTILE = "<img src=x onerror=alert(1)>|\"'`;--"
ALLOWED = {"a", "b", "br", "code", "div", "h1", "h2", "header", "i", "img", "p", "small", "span", "table", "tbody"}
ALLOWED |= {"td", "th", "thead", "tr"}


class Reader(HTMLParser):
    """Collects the elements, the attribute names and the text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def read(built: str) -> Reader:
    reader = Reader()
    reader.feed(built)
    reader.close()
    return reader


@given(st.text(max_size=80))
def test_any_name_is_text_in_a_table(name: str) -> None:
    """A name adds no element and no attribute to a table, and is read back as it is."""
    built = table([Column(head=name), Column(head="b")], [[two_lines(name, name), name]], label=name)
    reader = read(built)
    assert set(reader.elements) <= ALLOWED
    assert reader.elements.count("td") == 2
    assert not any(attribute.startswith("on") for attribute in reader.attributes)
    if "\r" not in name and "\x00" not in name:
        assert name in reader.text


@given(st.text(max_size=80))
def test_any_name_is_text_in_headlines_chips_tiles_and_heat(name: str) -> None:
    """The same holds for sentences, chips, tiles, heat cells and their titles."""
    built = markup.join(
        [
            markup.headline(markup.say(markup.Piece(text=name, href=address.link("series", subject=name)), name), name),
            markup.chip(name, markup.Tone.SLOWER),
            markup.tiles([markup.Tile(label=name, value=name, qualifier=name, line=name)]),
            heat_table([name], [name], [[HeatCell(first=name, second=name, title=name)]], label=name),
            markup.empty(name, name),
        ]
    )
    reader = read(built)
    assert set(reader.elements) <= ALLOWED
    assert "img" not in reader.elements
    assert not any(attribute.startswith("on") for attribute in reader.attributes)


@given(st.text(max_size=80))
def test_any_name_is_text_in_a_figure(name: str) -> None:
    """What plotly gets holds no tag, no quote and no template, and unescapes to the name."""
    shown = label(name)
    assert not set(shown) & set("<>\"'")
    assert "%{" not in shown
    assert html.unescape(shown) == name or "\r" in name or "%" in name


def test_script_addresses_are_no_links() -> None:
    """A link to a script is shown as its words."""
    assert markup.link("click", "javascript:alert(1)") == "click"
    assert markup.link("click", " JavaScript:alert(1)".strip()) == "click"


@given(st.dictionaries(st.sampled_from(["subject", "run", "family"]), st.text(min_size=1, max_size=40), min_size=1))
def test_links_carry_any_parameter(parameters: dict[str, str]) -> None:
    """A parameter is read back from the address as it was given."""
    from urllib.parse import parse_qs

    made = address.link("series", **parameters)
    path, _, query = made.partition("?")
    assert path == "series"
    assert {name: values[0] for name, values in parse_qs(query, errors="surrogatepass").items()} == parameters


def test_links_leave_out_what_is_not_given() -> None:
    """A parameter that is None or empty is not in the address, and the first page is the folder itself."""
    assert address.link("series", subject=None, run="") == "series"
    assert address.link("overview", heat="x y") == ".?heat=x%20y"


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_formulas_are_text_in_a_csv(start: str) -> None:
    """A text that a spreadsheet would compute gets an apostrophe; numbers and times stay as they are."""
    name = f"{start}cmd|' /C calc'!A0"
    frame = pd.DataFrame({"name": [name], "value": [-1.5], "at": pd.to_datetime(["2026-11-30"], utc=True)})
    written = csv_bytes(frame).decode()
    assert f"'{start}cmd" in written
    assert ",-1.5," in written
    assert harmless(-1.5) == -1.5


def test_parquet_keeps_names_and_types() -> None:
    """The Parquet download is the frame unchanged."""
    import io

    frame = pd.DataFrame({"name": ["=1+1", HOSTILE], "value": [1.0, 2.0]})
    pd.testing.assert_frame_equal(pd.read_parquet(io.BytesIO(parquet_bytes(frame))), frame)


def test_table_refuses_a_ragged_row() -> None:
    """A row with another number of cells than columns is our error and is said so."""
    with pytest.raises(ValueError, match="a row has 1 cells, must have 2"):
        table([Column(head="a"), Column(head="b")], [["only"]], label="x")


def decoded(image: str) -> str:
    start = image.index("base64,") + len("base64,")
    return base64.b64decode(image[start : image.index('"', start)]).decode()


def test_sparkline_breaks_where_a_value_is_missing() -> None:
    """A missing value lifts the pen: the line has two strokes, and says its words to those who cannot see it."""
    drawn = sparkline.image([1.0, 1.1, None, 1.2, 1.3], alt=HOSTILE)
    assert decoded(drawn).split('d="')[1].split('"')[0].count("M") == 2
    assert html.escape(HOSTILE, quote=True) in drawn
    assert set(read(drawn).elements) == {"img"}


def test_sparkline_without_values_is_words() -> None:
    """Nothing to draw is said, not drawn."""
    assert "no values" in sparkline.image([None, None], alt="x")
    assert "no values" in sparkline.image([], alt="x")


def test_sparkline_colours_the_part_since_the_change() -> None:
    """From the change on the line has the colour of its judgement."""
    drawn = decoded(sparkline.image([1.0, 1.0, 1.1, 1.1], alt="x", tone=markup.Tone.SLOWER, since=2))
    stroke = f"stroke:{palette.SLOWER.css}"
    assert stroke in drawn
    assert stroke not in decoded(sparkline.image([1.0, 1.0, 1.1], alt="x", tone=markup.Tone.SLOWER))


@pytest.mark.parametrize("ink", ["TEXT", "MUTED", "LINK", "SLOWER", "UNSURE", "CANDIDATE"])
def test_text_contrasts_with_the_page(ink: str) -> None:
    """Every ink that text is written in has a contrast of at least 4.5 in both themes (WCAG 2.2 AA)."""
    found: palette.Ink = getattr(palette, ink)
    assert palette.contrast(found.light, palette.BACKGROUND.light) >= 4.5
    assert palette.contrast(found.dark, palette.BACKGROUND.dark) >= 4.5


@pytest.mark.parametrize("chip", ["SLOWER", "FASTER", "UNSURE"])
def test_text_contrasts_with_its_chip(chip: str) -> None:
    """The same holds for the word in a coloured chip."""
    word, ground = getattr(palette, chip), getattr(palette, f"{chip}_CHIP")
    assert palette.contrast(word.light, ground.light) >= 4.5
    assert palette.contrast(word.dark, ground.dark) >= 4.5


@pytest.mark.parametrize("ink", [*palette.DIVERGING, *palette.SEQUENTIAL])
def test_numbers_contrast_with_their_cell(ink: palette.Ink) -> None:
    """The number in a heat cell can be read on every step of both scales."""
    assert palette.contrast(palette.text_on(ink.light), ink.light) >= 4.5
    assert palette.contrast(palette.text_on(ink.dark), ink.dark) >= 4.5


def test_scale_is_centred_where_nothing_changed() -> None:
    """Ratio 1 and change 0 stand on the middle step, the ends on the outer ones and beyond them nothing more."""
    assert palette.ratio_ink(1.0) is palette.DIVERGING[4]
    assert palette.change_ink(0.0) is palette.DIVERGING[4]
    assert palette.ratio_ink(0.3) is palette.DIVERGING[0]
    assert palette.ratio_ink(3.0) is palette.DIVERGING[-1]


def test_style_sheet_names_every_ink_it_uses() -> None:
    """A custom property that the style sheet uses is one that the palette gives."""
    import re

    sheet = style.style_sheet()
    used = set(re.findall(r"var\((--ko-[a-z-]+)\)", sheet))
    assert used <= set(re.findall(r"(--ko-[a-z-]+):", sheet))
    assert "http" not in sheet
