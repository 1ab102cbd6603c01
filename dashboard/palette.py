"""The colours and what they mean: hue is spent on judgement only.

Orange is slower, blue is faster, violet-grey is not sure, grey is everything else; each also has a word, a sign or a
shape. Contrasts were measured against the page background (text roles 4.7 and above).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class Mode(StrEnum):
    """The reader's theme."""

    LIGHT = "light"
    DARK = "dark"


@dataclass(frozen=True, slots=True)
class Ink:
    """One role in both themes, as hex."""

    light: str
    dark: str

    def of(self, mode: Mode) -> str:
        return self.light if mode is Mode.LIGHT else self.dark

    @property
    def css(self) -> str:
        """A CSS colour that follows the theme by itself."""
        return f"light-dark({self.light}, {self.dark})"


BACKGROUND = Ink("#FFFFFF", "#10151C")
SURFACE = Ink("#F4F6F8", "#19212B")
TEXT = Ink("#18212C", "#E3E8EE")
MUTED = Ink("#566270", "#9DA9B6")
LINE = Ink("#D5DCE4", "#303B48")
GRID = Ink("#E9EDF1", "#222B36")
LINK = Ink("#1D5FA5", "#7DB4EE")
FASTER = LINK
SLOWER = Ink("#A8460B", "#F2A065")
SLOWER_CHIP = Ink("#FCEBDD", "#43281A")
FASTER_CHIP = Ink("#E3EEF9", "#1B324A")
UNSURE = Ink("#5A4B8A", "#BFB0EE")
UNSURE_CHIP = Ink("#EEEBF6", "#2D2847")
CANDIDATE = Ink("#6B3FA0", "#C3A3F2")
NAIVE = Ink("#7B8794", "#8793A1")
CHIP = Ink("#E9EDF1", "#242E3A")
BAR = Ink("#A9B1BA", "#4D5967")

OPERATORS: dict[str, tuple[Ink, str]] = {
    "GEMM": (Ink("#0072B2", "#56A9DE"), "circle"),
    "Attention": (Ink("#C2500A", "#EE8A4C"), "square"),
    "RMSNorm": (Ink("#00795A", "#35BF95"), "diamond"),
    "SwiGLU": (Ink("#A6427F", "#E08FBF"), "triangle-up"),
    "Softmax": (Ink("#8A6500", "#E3B341"), "triangle-down"),
    "Collective": (Ink("#4A5562", "#AEB9C5"), "cross"),
}
"""Roofline only, never in one figure with judgement colours. A family that is not here gets `OTHER_OPERATOR`."""
OTHER_OPERATOR = (MUTED, "x")

DIVERGING: tuple[Ink, ...] = tuple(
    Ink(light, dark)
    for light, dark in zip(
        ["#2468A2", "#5E9CCB", "#9DC6E3", "#D3E5F2", "#F5F5F3", "#FBE3CE", "#F2BD90", "#DC8C4E", "#B45A1A"],
        ["#78B6EA", "#4585BD", "#2F5F8E", "#263F58", "#222A34", "#4B392B", "#80522B", "#B87536", "#EBA35C"],
        strict=True,
    )
)
"""Nine steps from faster to slower, the middle at ratio 1 or change 0."""

SEQUENTIAL: tuple[Ink, ...] = tuple(
    Ink(light, dark)
    for light, dark in zip(
        ["#F5F6F7", "#E3E7EB", "#CBD2D9", "#AEB8C2", "#8C98A5"],
        ["#1C242E", "#28323E", "#364250", "#4A5867", "#64748A"],
        strict=True,
    )
)
"""Greys from low to high, for a quantity that is no judgement (a fraction of the roof, an error margin)."""

DARK_CELL_TEXT = "#0F151C"
LIGHT_CELL_TEXT = "#FFFFFF"

RATIO_SPAN = (0.80, 1.25)
CHANGE_SPAN = (-0.08, 0.08)


def luminance(colour: str) -> float:
    """Relative luminance of a hex colour (WCAG 2.2)."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two hex colours, 1 to 21 (WCAG 2.2)."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def text_on(colour: str) -> str:
    """The cell text that contrasts more with `colour`."""
    return max((DARK_CELL_TEXT, LIGHT_CELL_TEXT), key=lambda text: contrast(text, colour))


def text_ink(ink: Ink) -> Ink:
    return Ink(text_on(ink.light), text_on(ink.dark))


def _step(position: float, steps: int) -> int:
    return min(steps - 1, max(0, math.floor(position * steps)))


def ratio_ink(ratio: float) -> Ink:
    """The step of a ratio on the log scale of `RATIO_SPAN`; beyond the ends the end's colour."""
    low, high = (math.log(x) for x in RATIO_SPAN)
    return DIVERGING[_step((math.log(ratio) - low) / (high - low), len(DIVERGING))]


def change_ink(change: float) -> Ink:
    """The step of a relative change on the scale of `CHANGE_SPAN`."""
    low, high = CHANGE_SPAN
    return DIVERGING[_step((change - low) / (high - low), len(DIVERGING))]


def share_ink(share: float) -> Ink:
    """The grey of a share in [0, 1]."""
    return SEQUENTIAL[_step(share, len(SEQUENTIAL))]


def translucent(colour: str, alpha: float) -> str:
    """A hex colour as rgba()."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha:g})"
