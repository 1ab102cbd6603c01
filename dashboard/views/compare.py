"""Any two runs, revisions, arms, devices or drivers, case by case, with what cannot be compared and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from statistics import median

import pandas as pd
import streamlit as st

from dashboard import markup, parts, words
from dashboard.address import link
from dashboard.comparison import Comparison, Measured, compare
from dashboard.data import compare as data
from dashboard.data import latest
from dashboard.figures.arms import arm_words
from dashboard.figures.compare import forest_figure
from dashboard.markup import Tone
from dashboard.sentences import device_name, lower_first
from dashboard.tables import Column, table, two_lines
from dashboard.views.choose import choose_device, device_words, nothing_measured
from detection.policy import Floors

SHOWN = 14
WAYS = ("run", "revision", "arm", "device", "driver")


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What stands on one side: its words, its runs, its arm."""

    value: str
    words: str
    runs: Sequence[data.RunOfDevice]
    arm: str


def draw() -> None:
    """Draws the page."""
    devices = latest.devices()
    if not devices:
        nothing_measured("comparison")
        return
    head = st.container()
    with parts.filters():
        device = choose_device(devices)
        way = parts.segmented("Compare by", list(WAYS), key="by", default="run")
    every = latest.rows(device)
    arms = sorted({row.arm for row in every if row.arm not in ("planted",)}) or ["candidate"]
    with parts.filters():
        sides = _choose_sides(way, device, devices, arms)
        if sides is None:
            st.html(markup.empty("There is only one of these: nothing to compare it with."))
            with head:
                st.html(
                    markup.headline(markup.say(f"One {way} on {device_name(device.device_model)}: nothing beside it."))
                )
            return
        measure = _choose_measure(way, sides)
    a, b = (data.side(side.runs[: data.POOLED_RUNS], side.arm) for side in sides)
    found = compare(a, b, measure=measure, floor=_floor([*a, *b], device), paired=way == "arm")
    shown = found.rows[:SHOWN]
    with head:
        st.html(markup.headline(_sentence(found, sides, way, device), _second(found, sides, shown, measure)))
    if shown:
        axis = "ratio to optimized" if measure == "ratio" else "time"
        figure = forest_figure(found, shown, parts.mode(), axis=axis, compact=parts.compact())
        parts.chart(figure, key="forest", alt=f"change of {len(shown)} cases with intervals")
    else:
        st.html(markup.empty("No case can be compared.", _left_out(found)))
    if shown and found.left_out:
        st.html(markup.note(_left_out(found)))
    if found.rows:
        _all_rows(found)
        parts.downloads("compare", lambda: _frame(found), data.side_query(list(sides[1].runs)[: data.POOLED_RUNS]))


def _choose_measure(way: str, sides: tuple[Side, Side]) -> str:
    if way == "arm":
        return "time"
    paired = all(side.arm not in ("optimized",) for side in sides)
    options = ["ratio to optimized", "raw time"] if paired else ["raw time"]
    default = options[0] if way != "device" else "raw time"
    chosen = parts.segmented("measure", options, key=f"measure-{way}-{len(options)}", default=default)
    return "ratio" if chosen == "ratio to optimized" else "time"


def _choose_sides(
    way: str, device: latest.Device, devices: Sequence[latest.Device], arms: Sequence[str]
) -> tuple[Side, Side] | None:
    runs = data.runs_of(device.device_unit or None)
    nights = [run for run in runs if run.kind != "confirm"] or runs
    if way == "arm":
        return _arm_sides(nights, arms)
    arm = _pick_arm(arms)
    if way == "device":
        options = {d.device_unit: (device_words(d), data.runs_of(d.device_unit or None, 1)) for d in devices}
    elif way == "run":
        options = {run.run_id: (f"{words.moment(run.started_at, UTC)} · {run.run_id}", [run]) for run in runs}
    else:
        options = {}
        for run in nights:
            value = (run.revision if way == "revision" else run.driver) or "not known"
            options.setdefault(value, (words.shorten(value, 40), []))[1].append(run)
        options = {
            value: (f"{said}, {words.counted(len(pool), 'run')}", pool) for value, (said, pool) in options.items()
        }
    if len(options) < 2:
        return None
    newest, before = list(options)[:2]
    return (
        _pick_side("A", options, before, arm, way),
        _pick_side("B", options, newest, arm, way),
    )


def _arm_sides(nights: Sequence[data.RunOfDevice], arms: Sequence[str]) -> tuple[Side, Side] | None:
    if len(arms) < 2 or not nights:
        return None
    options = {arm: (arm_words(arm), [nights[0]]) for arm in arms}
    default_a = "optimized" if "optimized" in arms else arms[0]
    default_b = next((arm for arm in arms if arm.startswith("candidate")), arms[-1])
    one, other = (_pick_side(name, options, value, "", "arm") for name, value in (("A", default_a), ("B", default_b)))
    return (
        Side(value=one.value, words=one.words, runs=one.runs, arm=one.value),
        Side(value=other.value, words=other.words, runs=other.runs, arm=other.value),
    )


def _pick_arm(arms: Sequence[str]) -> str:
    default = next((arm for arm in arms if arm == "candidate"), arms[0])
    asked = st.query_params.get("of")
    current = asked if asked is not None and asked in arms else default
    picked = parts.pick("Arm", [(arm, arm_words(arm)) for arm in arms], current, key="pick-of", width=170)
    if picked:
        parts.go_to(of=picked)
    return current


def _pick_side(
    name: str, options: dict[str, tuple[str, list[data.RunOfDevice]]], default: str, arm: str, way: str
) -> Side:
    key = name.lower()
    asked = st.query_params.get(key)
    current = asked if asked is not None and asked in options else default
    choices = [(value, said) for value, (said, _) in options.items()]
    picked = parts.pick(name, choices, current, key=f"pick-{way}-{key}", width=330)
    if picked:
        parts.go_to(**{key: picked})
    said, runs = options[current]
    return Side(value=current, words=said, runs=runs, arm=arm)


def _floor(measured: Sequence[Measured], device: latest.Device) -> float:
    """The median smallest visible change of the series; the policy's floor where none is stated."""
    known = [m.smallest_visible_change for m in measured if m.smallest_visible_change]
    floors = Floors()
    return median(known) if known else (floors.cpu if device.device_kind == "cpu" else floors.accelerator)


def _name_of(side: Side, way: str) -> str:
    if way == "run" and side.runs:
        at = side.runs[0].started_at
        return f"the run of {words.date(at, UTC)}, {words.clock(at, UTC)}"
    return words.shorten(side.words.split(", ")[0] if way in ("revision", "driver") else side.words, 40)


def _sentence(found: Comparison, sides: tuple[Side, Side], way: str, device: latest.Device) -> markup.Sentence:
    a, b = (_name_of(side, way) for side in sides)
    b = words.capital(b) if way in ("run", "arm") else b
    where = "" if way == "device" else f" on {device_name(device.device_model)}"
    lead = f"{b} against {a}{where}: "
    if found.total is None:
        return markup.say(f"{lead}nothing in common.")
    total = found.total.exp()
    over = "over all weighted cases" if found.weighted else f"over {words.counted(len(found.rows), 'case')}"
    size = words.change_size(total.estimate - 1, total.low - 1, total.high - 1)
    if total.low <= 1 <= total.high and total.half_width > found.floor:
        sure = words.change(total.estimate - 1, total.low - 1, total.high - 1)
        return markup.say(f"{lead}undecided {over}, {sure}.")
    if total.low <= 1 <= total.high:
        sure = words.change(total.estimate - 1, total.low - 1, total.high - 1)
        return markup.say(f"{lead}no difference {over}, {sure}.")
    slower = total.estimate > 1
    tone = Tone.SLOWER if slower else Tone.FASTER
    carried = [r for r in found.rows if r.verdict == ("slower" if slower else "faster")]
    carrier = f"; {lower_first(carried[0].name)} carries it" if carried else ""
    word = "slower" if slower else "faster"
    return markup.say(lead, markup.Piece(text=size, tone=tone), f" {word} {over}{carrier}.")


def _second(found: Comparison, sides: tuple[Side, Side], shown: Sequence[object], measure: str) -> str:
    counts = Counter(row.verdict for row in found.rows)
    said = ", ".join(f"{counts[v]:,} {v}" for v in ("slower", "faster", "unchanged", "inconclusive") if counts[v])
    runs = " and ".join(words.counted(min(len(side.runs), data.POOLED_RUNS), "run") for side in sides)
    how = "ratios paired in their own runs" if measure == "ratio" else "raw times, by the clock of the runs"
    cases = f"{len(shown)} dearest of {words.counted(len(found.rows), 'case')}" if len(found.rows) > SHOWN else ""
    return " ".join(
        filter(None, (f"{words.capital(how)}, {runs}.", f"{cases}." if cases else "", f"{said}." if said else ""))
    )


def _left_out(found: Comparison) -> str:
    parts_of = [f"{words.counted(count, 'case')} {reason}" for reason, count in sorted(found.left_out.items())]
    return f"Not comparable, left out: {', '.join(parts_of)}." if parts_of else "Both sides are empty."


def _all_rows(found: Comparison) -> None:
    with st.expander(f"Every case as a table, {len(found.rows):,}", expanded=parts.compact()):
        rows = [
            [
                two_lines(markup.link(row.name, link("series", subject=row.subject_id)), row.shape),
                words.change(row.change, row.low, row.high),
                words.percent(row.weight) if row.weight is not None else "no weight",
                words.price(row.price),
                markup.toned(row.verdict, {"slower": Tone.SLOWER, "faster": Tone.FASTER}.get(row.verdict, Tone.MUTED)),
            ]
            for row in found.rows[:300]
        ]
        columns = (
            Column(head="case", css="ko-name"),
            Column(head="change, 95 % interval", number=True),
            Column(head="weight", number=True),
            Column(head="price", number=True),
            Column(head="verdict"),
        )
        st.html(table(columns, rows, label="All cases compared", css="ko-blocks"))


def _frame(found: Comparison) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "case": row.case_id,
                "title": row.name,
                "shape": row.shape,
                "change": row.change,
                "low": row.low,
                "high": row.high,
                "weight": row.weight,
                "price": row.price,
                "verdict": row.verdict,
            }
            for row in found.rows
        ]
    )
