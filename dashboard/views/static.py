"""Kernels as their compiler leaves them: registers, spills, shared memory by chip, and what changed, exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC

import streamlit as st

from dashboard import markup, palette, parts, words
from dashboard.address import link
from dashboard.data import static as data
from dashboard.data.source import frame
from dashboard.data.static import Compiled, Standing
from dashboard.figures.static import static_figure
from dashboard.markup import Html, Tone
from dashboard.tables import Column, HeatCell, heat_table, table, two_lines
from detection.static_change import StaticVerdict

COMMAND = "collector suite static --store"
CHANGES_SHOWN = 40
LISTED = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """One number of a compilation: how it is read off and written."""

    value: Callable[[Compiled], float | None]
    written: Callable[[float | None], str]
    title: str
    """With its unit, for an axis."""


def _count(value: float | None) -> str:
    return words.NOTHING if value is None else words.count(int(value))


NUMBERS: dict[str, Number] = {
    "registers": Number(value=lambda r: r.static_registers, written=_count, title="registers of a thread"),
    "spills": Number(value=lambda r: r.static_spills, written=_count, title="spills"),
    "shared memory": Number(
        value=lambda r: r.static_shared_bytes, written=words.memory, title="shared memory of a block, bytes"
    ),
    "stack": Number(value=lambda r: r.static_stack_bytes, written=words.memory, title="stack of a thread, bytes"),
    "matrix instructions": Number(
        value=lambda r: r.static_matrix_instructions, written=_count, title="matrix instructions"
    ),
    "wide loads": Number(
        value=lambda r: r.wide_share,
        written=lambda v: words.percent(v, 0),
        title="share of loads of 128 bits or in bulk",
    ),
    "binary": Number(value=lambda r: r.static_binary_bytes, written=words.memory, title="binary, bytes"),
    "compile time": Number(value=lambda r: r.compile_s, written=words.duration, title="compile time, s"),
}
JUDGED = ("registers", "spills", "shared memory", "stack")
"""More of these is room for fewer programs at a time, or traffic: only they are coloured."""


def draw() -> None:
    """Draws the page."""
    rows, query, parameters = data.compilations()
    if not rows:
        st.html(markup.headline(markup.say("No kernel has been compiled ahead of time yet.")))
        way_out = markup.join(["Compile every kernel for every chip with ", markup.element("code", COMMAND), " STORE."])
        st.html(markup.empty("It needs no GPU: registers, spills and shared memory are exact.", way_out))
        return
    found = data.standings(rows)
    st.html(markup.headline(_sentence(found), _second(rows, found)))
    st.html(_changes(found))
    with parts.filters():
        number = parts.segmented("Number", list(NUMBERS), key="number", default="registers")
        families = ["any", *sorted({s.now.family for s in found})]
        family = st.selectbox("Operator", families, key="of", bind="query-params", persist_state="session", width=170)
    shown = [s for s in found if family in (None, "any", s.now.family)]
    st.html(_grid(shown, number))
    st.html(markup.note(_legend(number)))
    _one(rows, found, number)
    parts.downloads("static", lambda: frame(query, parameters), query)


def _sentence(found: Sequence[Standing]) -> markup.Sentence:
    counts = Counter(s.change.verdict for s in found if s.change is not None)
    failed = sum(s.change is None for s in found)
    tail = f"; {words.plural(failed, 'kernel does', 'kernels do')} not compile for a chip" if failed else ""
    new = counts[StaticVerdict.NEW]
    known = sum(counts.values()) - new
    if not known:
        compiled = words.counted(len(found), "binary", "binaries")
        return markup.say(f"{compiled} compiled, each for the first time{tail}.")
    if new:
        tail = f"; {words.plural(new, 'is new', 'are new')}{tail}"
    changed = known - counts[StaticVerdict.UNCHANGED]
    if not changed:
        equal = words.counted(known, "binary is", "binaries are")
        return markup.say(f"Nothing changed: {equal} the same as at the compilation before{tail}.")
    worse = [s for s in found if s.change is not None and s.change.verdict is StaticVerdict.REGRESSED]
    pieces: list[str | markup.Piece] = [f"{words.count_of(changed, known, 'binaries')} differ from the one before"]
    if worse:
        first = worse[0]
        named = markup.Piece(text=short(first.now.kernel), href=_link(first.now))
        needs = f"{words.number_word(len(worse))} {'needs' if len(worse) == 1 else 'need'} more"
        lead = ": " if len(worse) == 1 else ", the first is "
        pieces += ["; ", markup.Piece(text=needs, tone=Tone.SLOWER), lead, named]
        pieces += [f" for {first.now.chip} ({_differences(first)})"]
    else:
        pieces.append("; none needs more registers, spills or shared memory")
    return markup.say(*pieces, f"{tail}.")


def _second(rows: Sequence[Compiled], found: Sequence[Standing]) -> str:
    newest = rows[0]
    kernels, chips = len({s.now.kernel for s in found}), len({s.now.chip for s in found})
    return (
        f"{words.counted(kernels, 'kernel')} × {words.counted(chips, 'chip')}, newest compilation "
        f"{words.moment(newest.measured_at, UTC)}, triton {newest.triton or words.NOTHING}, revision "
        f"{newest.revision or words.NOTHING}. Exact, without noise: one look decides, equal hashes are equal code."
    )


def short(kernel: str) -> str:
    """The kernel without the shape that it was compiled for."""
    return kernel.partition("[")[0].removesuffix("_kernel")


def _shape(kernel: str) -> str:
    return kernel.partition("[")[2].removesuffix("]").replace(",", " · ").replace("=", " ")


def _link(row: Compiled) -> str:
    return link("static", kernel=row.kernel, chip=row.chip)


def _differences(one: Standing) -> str:
    """`registers 64 to 72, spills 0 to 4`: what differs, dearest first."""
    if one.change is None:
        return ""
    told = [
        f"{name.removeprefix('static_').replace('_', ' ')} {before:,.0f} to {now:,.0f}"
        for name, before, now in one.change.differences
    ]
    return ", ".join(told) or "another binary of the same size"


def _grid(shown: Sequence[Standing], number: str) -> Html:
    by_place = {s.now.place: s for s in shown}
    quiet = (StaticVerdict.UNCHANGED, StaticVerdict.NEW)
    moved = {s.now.kernel for s in shown if s.change is None or s.change.verdict not in quiet}
    kernels = sorted({s.now.kernel for s in shown}, key=lambda kernel: (kernel not in moved, kernel))
    chips = sorted({s.now.chip for s in shown}, key=_chip_order)
    any_before = any(s.before is not None for s in shown)
    cells = [[_cell(by_place.get((kernel, chip)), number, any_before) for chip in chips] for kernel in kernels]
    names = [two_lines(short(kernel), _shape(kernel)) for kernel in kernels]
    title = markup.heading(
        words.capital(number),
        "by kernel and chip, the newest compilation" + (", below it what was before" if any_before else ""),
    )
    return markup.join([title, heat_table(names, chips, cells, label=f"{number} by kernel and chip")])


def _chip_order(chip: str) -> tuple[str, int, str]:
    digits = "".join(c for c in chip if c.isdigit())
    return chip.rstrip("0123456789abcdef"), int(digits or 0), chip


def _cell(one: Standing | None, number: str, any_before: bool) -> HeatCell:
    if one is None:
        return HeatCell(first="not compiled", second="for this chip")
    if one.change is None:
        why = one.now.status_reason or "no reason was kept"
        return HeatCell(first="fails", second=words.shorten(why, 40), href=_link(one.now), title=why)
    asked = NUMBERS[number]
    now = asked.value(one.now)
    was = asked.value(one.before) if one.before is not None else None
    second, tone = "new" if any_before else "", 0
    if one.before is not None:
        if one.change.verdict is StaticVerdict.UNCHANGED and number != "compile time":
            second = "same binary"
        elif was == now:
            second = "as before, other binary" if one.change.verdict is not StaticVerdict.UNCHANGED else "as before"
        else:
            second = f"was {asked.written(was)}"
            if number in JUDGED and was is not None and now is not None:
                tone = 1 if now > was else -1
    first = asked.written(now) if now is not None else "not kept"
    ink = palette.DIVERGING[{1: -3, -1: 2}[tone]] if tone else None
    return HeatCell(
        first=f"{'▲ ' if tone > 0 else '▼ ' if tone < 0 else ''}{first}",
        second=second,
        ground=ink.css if ink else "",
        text=palette.text_ink(ink).css if ink else "",
        href=_link(one.now),
    )


LEGENDS = {
    "registers": "Of a thread; on AMD vector and accumulation registers together.",
    "spills": "On NVIDIA instructions that touch thread-private memory, on AMD registers spilled.",
    "wide loads": "Loads of global memory of 128 bits, or bulk copies, ÷ all of them; a series below has all.",
    "compile time": "Of one compilation without a cache; it depends on the machine, so it is shown and never judged.",
}


def _legend(number: str) -> str:
    coloured = "▲ orange needs more than before, ▼ blue less." if number in JUDGED else "Shown, not judged."
    return f"{LEGENDS.get(number, '')} {coloured}".strip()


def _changes(found: Sequence[Standing]) -> Html:
    quiet = (StaticVerdict.UNCHANGED, StaticVerdict.NEW)
    order = (StaticVerdict.REGRESSED, StaticVerdict.IMPROVED, StaticVerdict.CHANGED)
    changed = [s for s in found if s.change is not None and s.change.verdict not in quiet]
    failed = [s for s in found if s.change is None]
    head = markup.heading("What changed", "against the compilation before of the same kernel and chip")
    if not changed and not failed:
        compared = any(s.before is not None for s in found)
        text = (
            "Nothing: every hash is equal." if compared else "Nothing to compare with: a second compilation brings it."
        )
        return markup.join([head, markup.empty(text)])
    changed.sort(key=lambda s: order.index(s.change.verdict) if s.change else 9)
    rows: list[list[object]] = [
        [_named(s.now), s.now.chip, markup.chip("does not compile", Tone.SLOWER), s.now.status_reason or "", "", ""]
        for s in failed
    ]
    tones = {StaticVerdict.REGRESSED: Tone.SLOWER, StaticVerdict.IMPROVED: Tone.FASTER}
    for s in changed:
        assert s.change is not None and s.before is not None
        verdict = markup.chip(VERDICT_WORDS[s.change.verdict], tones.get(s.change.verdict, Tone.OUTLINE))
        sides = [
            f"{side.revision or 'revision not known'}, triton {side.triton or words.NOTHING}"
            for side in (s.before, s.now)
        ]
        rows.append([_named(s.now), s.now.chip, verdict, _differences(s), *sides])
    columns = (
        Column(head="kernel", css="ko-name"),
        Column(head="chip", css="ko-nowrap"),
        Column(head="verdict", css="ko-nowrap"),
        Column(head="what differs"),
        Column(head="before"),
        Column(head="now"),
    )
    body = table(columns, rows[:CHANGES_SHOWN], label="What changed", css="ko-blocks")
    tail = [markup.note(f"{CHANGES_SHOWN} of {len(rows):,} shown.")] if len(rows) > CHANGES_SHOWN else []
    return markup.join([head, body, *tail])


VERDICT_WORDS = {
    StaticVerdict.REGRESSED: "needs more",
    StaticVerdict.IMPROVED: "needs less",
    StaticVerdict.CHANGED: "other code",
}


def _named(row: Compiled) -> Html:
    return two_lines(markup.link(short(row.kernel), _link(row)), _shape(row.kernel))


def _one(rows: Sequence[Compiled], found: Sequence[Standing], number: str) -> None:
    """The series of one kernel and chip: the one of the address, else the first that changed."""
    asked = st.query_params.get("kernel"), st.query_params.get("chip")
    chosen = next((s for s in found if s.now.place == asked), None)
    st.html(markup.heading("One kernel through its compilations"))
    if any(asked) and chosen is None:
        st.html(markup.empty(f"There is no {asked[0]} for {asked[1]} here.", "Another one can be chosen below."))
    worst = next((s for s in found if s.change and s.change.verdict is StaticVerdict.REGRESSED), found[0])
    current = chosen or worst
    options = [("\t".join(s.now.place), f"{s.now.kernel} for {s.now.chip}") for s in found]
    picked = parts.pick("Kernel and chip", options, "\t".join(current.now.place), key="pick-static", width=640)
    if picked is not None:
        kernel, _, chip = picked.partition("\t")
        parts.go_to(kernel=kernel, chip=chip)
    own = [row for row in rows if row.place == current.now.place]
    asked_number = NUMBERS[number]
    oldest_first = own[::-1]
    if len(own) > 1:
        figure = static_figure(
            oldest_first,
            [asked_number.value(row) for row in oldest_first],
            title=asked_number.title,
            zone=UTC,
            mode=parts.mode(),
        )
        parts.chart(figure, key="static-one", alt=f"{number} of {current.now.kernel} in {len(own)} compilations")
        st.html(markup.note("A filled mark is a binary that differs from the one before it."))
    st.html(_history(own))
    if current.now.repro:
        st.code(current.now.repro, language=None)


def _history(own: Sequence[Compiled]) -> Html:
    rows: list[list[object]] = []
    for i, row in enumerate(own[:LISTED]):
        older = next((o for o in own[i + 1 :] if o.static_binary_sha256), None)
        numbers: list[object] = [
            NUMBERS[name].written(NUMBERS[name].value(row)) if row.static_binary_sha256 else "" for name in TABLED
        ]
        if row.static_binary_sha256 is None:
            code: object = two_lines(markup.chip("does not compile", Tone.SLOWER), row.status_reason or "")
        else:
            same = older is None or older.static_binary_sha256 == row.static_binary_sha256
            text = row.static_binary_sha256[:12]
            code = (
                markup.element("span", text, css="ko-muted") if same else markup.element("span", text, css="ko-strong")
            )
        widths = ", ".join(f"{n} × {f'{bits} bit' if bits else 'bulk'}" for bits, n in row.loads.items())
        at = markup.link(words.moment(row.measured_at, UTC), link("runs", run=row.run_id))
        rows.append([at, row.revision or words.NOTHING, row.triton or words.NOTHING, *numbers, widths, code])
    columns = (
        Column(head="compiled", css="ko-nowrap"),
        Column(head="revision"),
        Column(head="triton"),
        *(Column(head=name, number=True) for name in TABLED),
        Column(head="loads"),
        Column(head="hash", css="ko-nowrap"),
    )
    return table(columns, rows, label="Compilations of the kernel", css="ko-blocks")


TABLED = ("registers", "spills", "shared memory", "stack", "matrix instructions", "binary", "compile time")
