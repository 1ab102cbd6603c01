"""The first sentence of a page: pure functions from records to words, so that a test can read them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, tzinfo

from dashboard import words
from dashboard.address import link
from dashboard.data.overview import OPEN_STATES, FindingRow, FindingTotals, Judged, LakeTotals
from dashboard.data.series import Baseline, Change, EnvironmentChange, Point, Subject
from dashboard.markup import Piece, Sentence, Tone, say

VENDORS = ("NVIDIA ", "AMD Instinct ", "AMD ", "Intel(R) ", "Intel ")
CLASS_WORDS = {
    "code": "probably by its own code",
    "environment": "probably by a changed environment",
    "host": "probably by its host",
    "method": "probably by a changed measurement",
    "baseline": "because the kernel it is compared with moved",
    "noise": "probably noise",
}


def device_name(model: str | None) -> str:
    """The model without its maker and without what every processor's name ends in: "H200", "EPYC 9654"."""
    name = model or "unknown device"
    for vendor in VENDORS:
        if name.startswith(vendor) and len(name) > len(vendor):
            name = name.removeprefix(vendor)
            break
    for tail in (" Processor", " CPU"):
        name = name.removesuffix(tail)
    return name.replace("(R)", "").replace("(TM)", "")


def change_tone(finding: FindingRow) -> Tone:
    """Coloured: confirmed, acknowledged, a resolved gain. Class baseline, method and noise never are."""
    if finding.finding_class in ("baseline", "method", "noise"):
        return Tone.PLAIN
    coloured = finding.state in OPEN_STATES or (finding.state == "resolved" and finding.direction < 0)
    if not coloured:
        return Tone.PLAIN
    return Tone.SLOWER if finding.direction > 0 else Tone.FASTER


def state_tone(finding: FindingRow) -> Tone:
    """A state is a judgement: confirmed in its colour, suspected in that of doubt, the rest outlined."""
    if finding.state in ("confirmed", "reopened"):
        return Tone.SLOWER if finding.direction > 0 else Tone.FASTER
    return Tone.UNSURE if finding.state == "suspected" else Tone.OUTLINE


def change_words(finding: FindingRow) -> str:
    """ "7.4 ± 0.9 %", or what stands where a change has no size."""
    if finding.change is None:
        return {"status": "it fails", "silence": "it is silent"}.get(finding.metric, "by an unknown amount")
    return words.change_size(finding.change, finding.change_low, finding.change_high)


def _piece_of(finding: FindingRow) -> list[str | Piece]:
    where = f"{lower_first(finding.name)} on {device_name(finding.device_model)}"
    named = Piece(text=where, href=link("findings", finding=finding.finding_id))
    return [named, ", ", Piece(text=change_words(finding), tone=change_tone(finding))]


def lower_first(name: str) -> str:
    """For use inside a sentence; a name in capitals (GEMM, RMSNorm) stays."""
    return name if len(name) > 1 and name[1].isupper() else name[:1].lower() + name[1:]


def overview_sentence(lake: LakeTotals, new: Sequence[FindingRow], found: FindingTotals, judged: Judged) -> Sentence:
    """What changed since yesterday, and how sure: `new` are the findings opened within the last night, by price."""
    sure = [f for f in new if f.state in OPEN_STATES]
    slower = [f for f in sure if f.direction > 0]
    faster = [f for f in sure if f.direction <= 0]
    suspected = [f for f in new if f.state == "suspected"]
    if slower:
        return _moved(slower, "worse")
    if faster:
        return _moved(faster, "better")
    if suspected:
        first = suspected[0]
        rest = f" and {words.plural(len(suspected) - 1, 'other')}" if len(suspected) > 1 else ""
        return say("Nothing confirmed since yesterday; suspected: ", *_piece_of(first), rest, ".")
    if lake.runs == 1 or not judged.judged:
        return _without_history(lake, judged)
    still = ""
    if found.open_slower:
        still = f" {words.capital(words.plural(found.open_slower, 'older slow-down'))} "
        still += "stays open." if found.open_slower == 1 else "stay open."
    return say(
        f"Nothing changed since yesterday: {words.count_of(judged.judged, judged.series, 'series')} were judged.{still}"
    )


def _moved(found: Sequence[FindingRow], way: str) -> Sentence:
    first = found[0]
    plain = all(f.metric.startswith("latency") for f in found)
    verb = {"worse": "got slower" if plain else "got worse", "better": "got faster" if plain else "got better"}[way]
    reason = CLASS_WORDS.get(first.finding_class or "")
    if len(found) == 1:
        tail = f", {reason}." if reason else "."
        return say(f"Since yesterday one kernel {verb}, confirmed: ", *_piece_of(first), tail)
    count = words.plural(len(found), "kernel")
    return say(f"Since yesterday {count} {verb}, confirmed; the dearest is ", *_piece_of(first), ".")


def _without_history(lake: LakeTotals, judged: Judged) -> Sentence:
    if lake.runs == 1:
        what = f"{words.counted(judged.series, 'candidate')} beside {words.plural(judged.cases, 'case')}"
        return say(f"First run: {what}; a second run gives them something to be compared with.")
    return say(
        f"{words.capital(words.number_word(lake.runs))} runs are here, but none of "
        f"{words.counted(judged.series, 'candidate series', 'candidate series')} was judged against its history yet."
    )


def overview_second(
    lake: LakeTotals, new: Sequence[FindingRow], found: FindingTotals, judged: Judged, zone: tzinfo
) -> str:
    """The muted line: which revisions, what it costs, what else is open, which night."""
    parts = []
    first = next((f for f in new if f.state in OPEN_STATES), None)
    if first is not None:
        if first.revision_good and first.revision_bad and first.revision_good != first.revision_bad:
            parts.append(f"Revisions {first.revision_good[:12]} to {first.revision_bad[:12]}.")
        if first.price is not None:
            cost = words.percent(abs(first.price), 2)
            verb = "costs" if first.price > 0 else "saves"
            parts.append(f"It {verb} {cost} of that device's production time.")
    older = found.open_slower - sum(1 for f in new if f.state in OPEN_STATES and f.direction > 0)
    if first is not None and older > 0:
        verb = "stays" if older == 1 else "stay"
        parts.append(f"{words.capital(words.plural(older, 'older slow-down'))} {verb} open.")
    if found.suspected:
        parts.append(f"{words.capital(words.plural(found.suspected, 'change is', 'changes are'))} only suspected.")
    if judged.visible_median is not None:
        parts.append(f"The median series can show a change of {words.percent(judged.visible_median)}.")
    if lake.latest_at is not None:
        parts.append(f"Newest run {words.moment(lake.latest_at, zone)}.")
    return " ".join(parts)


FRESH_FOR_S = 26 * 3600
"""A device that was measured within a day and two hours is fresh; a longer silence is stale."""


def is_stale(latest_at: datetime, now: datetime) -> bool:
    return (now - latest_at).total_seconds() > FRESH_FOR_S


def series_sentence(
    focus: Subject, points: Sequence[Point], changes: Sequence[Change], base: Baseline | None, zone: tzinfo
) -> Sentence:
    """Where the series stands: its open change if it has one, and how it does beside the optimized arm."""
    where = f"{focus.name} on {device_name(focus.device_model)}"
    arm = "" if focus.arm == "candidate" else f", {'A/A copy' if focus.arm == 'aa' else focus.arm}"
    newest = points[-1] if points else None
    if newest is not None and not newest.counts:
        why = (newest.status_kind or newest.status_reason or "").replace("_", " ")
        became = {"failed": "failed", "wrong": "computed wrong", "skipped": "was skipped", "invalid": "does not count"}
        tail = f": {why}." if why else "."
        return say(f"{where}{arm}: the newest run {became.get(newest.status, newest.status)}{tail}")
    measured = [p for p in points if p.counts]
    if not measured:
        return say(f"{where}{arm}: nothing was measured in this range.")
    open_changes = [c for c in changes if c.state in OPEN_STATES and c.since_at is not None and c.change is not None]
    latest = measured[-1]
    stand = _standing(latest)
    if open_changes:
        last = open_changes[-1]
        since = words.date(last.since_at, zone) if last.since_at else ""
        tone = Tone.SLOWER if last.direction > 0 else Tone.FASTER
        if last.finding_class in ("baseline", "method", "noise"):
            tone = Tone.PLAIN
        size = Piece(text=words.change_size(last.change, last.change_low, last.change_high), tone=tone)
        was = f" (was {_beside_one(base.level)})" if base is not None and latest.ratio is not None else ""
        word = words.slower_or_faster(last.direction, last.metric)
        return say(f"{where}{arm}: ", size, f" {word} since {since}{', now ' + stand if stand else ''}{was}.")
    verdict = f", {focus.verdict}" if focus.verdict in ("unchanged", "inconclusive") else ""
    now = stand or f"{words.time(latest.latency_p50_s)} a call"
    return say(f"{where}{arm}: {now}{verdict}.")


def _standing(point: Point) -> str:
    """Beside the optimized arm in words; empty for the optimized arm itself."""
    if point.ratio is None or point.arm == "optimized":
        return ""
    return f"{_beside_one(point.ratio)} than the optimized kernel"


def _beside_one(ratio: float) -> str:
    if ratio >= 1.9995:
        return f"{words.ratio(ratio, 2)} slower"
    size = words.percent(abs(ratio - 1))
    return f"{size} {'slower' if ratio > 1 else 'faster'}"


def series_second(focus: Subject, points: Sequence[Point], environment: Sequence[EnvironmentChange]) -> str:
    """The muted line: shape, how it was measured, how many runs, what can be seen."""
    own = [p for p in points if p.arm == focus.arm]
    parts = [focus.shape or focus.case_id]
    if own:
        latest = own[-1]
        how = [f"{latest.replicates} processes a run" if latest.replicates else "", _settings_words(focus.settings)]
        parts.append(", ".join(filter(None, how)))
        excluded = sum(1 for p in own if p.status == "invalid")
        without = sum(1 for p in own if p.status in ("failed", "wrong", "skipped"))
        runs = words.counted(len(own), "run")
        runs += f", {excluded:,} excluded" if excluded else ""
        runs += f", {without:,} without a time" if without else ""
        parts.append(runs)
    if focus.smallest_visible_change is not None:
        parts.append(f"smallest visible change {words.percent(focus.smallest_visible_change)}")
    if focus.weight is not None:
        parts.append(f"{words.percent(focus.weight)} of production time")
    return " · ".join(filter(None, parts))


def _settings_words(settings: str | None) -> str:
    try:
        parsed = json.loads(settings or "{}")
    except ValueError:
        return settings or ""
    if not isinstance(parsed, dict):
        return str(settings)
    said = []
    for name, value in parsed.items():
        text = str(value).replace("_", " ")
        noun = name.replace("_", " ")
        said.append(text if name == "timer" else f"{text} {noun.removesuffix('s') if text == '1' else noun}")
    return ", ".join(said)
