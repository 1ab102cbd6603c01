"""One run of one device unit against that unit's history: arrays for `detection`, verdicts back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from collector.host.history import PAIRED_COLUMNS, Floats, RunFacts, Subject, UnitHistory
from detection.night import RECENT, CommonShift, Night, judge_night
from detection.noise_pool import NoisePool
from detection.policy import Policy
from detection.verdict import Metric, ReasonCode, Tier, Verdict, VerdictStatus, not_judged

CONTROL_ROLES = frozenset({"aa", "naive"})
SILENT_ROLES = frozenset({"aa", "planted", "reference"})
"""Arms whose changes audit the judge and never are findings."""

_SAID_FIRST = (
    ReasonCode.BEYOND_FLOOR,
    ReasonCode.SUSPICIOUS,
    ReasonCode.RECENT_NIGHTS,
    ReasonCode.FROM_ZERO,
    ReasonCode.NEWLY_FAILING,
    ReasonCode.SHIFTED,
)
_OF_STATUS = {"wrong": ReasonCode.WRONG, "failed": ReasonCode.FAILED, "skipped": ReasonCode.SKIPPED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Which runs are the baseline of a series: columns from `start` up to, not including, `end`, less the gaps."""

    start: int = 0
    end: int | None = None
    gaps: tuple[tuple[int, int], ...] = ()
    """Columns [from, to) of findings that were there and are resolved: not the level that the series has now."""
    finding_id: str | None = None
    """Where a finding is open, since column `end` ..."""
    change: float | None = None
    """... the relative change that it reported; None where no ratio exists."""
    whole_run: bool = False
    """... and whether it is of the host: then the run's common shift is part of the change."""

    def covers(self, column: int) -> bool:
        """Whether the run at `column` is baseline."""
        return (
            column >= self.start
            and (self.end is None or column < self.end)
            and not any(low <= column < high for low, high in self.gaps)
        )

    def mask(self, columns: int) -> NDArray[np.bool_]:
        """`covers` of each of the first so many columns."""
        at = np.arange(columns)
        inside = (at >= self.start) & (at < (columns if self.end is None else self.end))
        for low, high in self.gaps:
            inside &= (at < low) | (at >= high)
        return inside


WHOLE = Segment()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectVerdict:
    """A verdict with what it is about."""

    subject: Subject
    metric: Metric
    verdict: Verdict
    tier: Tier = Tier.TONIGHT
    against: str = "history"
    baseline_run_id: str | None = None
    finding_id: str | None = None
    """The open finding at whose level the series still is, or from which it came back."""
    total_change: float | None = None
    """Of a further step on top of an open finding: the change against the level from before that finding."""

    @property
    def moved(self) -> bool:
        """Whether tonight is the first time that this is said."""
        return self.verdict.code in _SAID_FIRST and self.verdict.status is not VerdictStatus.UNCHANGED


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVerdicts:
    """All that one run's own numbers say."""

    run: RunFacts
    column: int
    verdicts: tuple[SubjectVerdict, ...]
    shift: CommonShift | None
    scatter: Mapping[Metric, float] = field(default_factory=dict)
    discovery_p: Mapping[Metric, float] = field(default_factory=dict)
    noise: Mapping[Metric, NoisePool] = field(default_factory=dict)
    """By metric: the p-value below which one more series would have been a discovery of this run."""


def visible_columns(history: UnitHistory, column: int) -> NDArray[np.bool_]:
    """Runs that are evidence for the one at `column`: older ones that were not made to confirm something."""
    return np.array([i < column and run.kind != "confirm" for i, run in enumerate(history.runs)], dtype=bool)


def make_night(
    history: UnitHistory,
    metric: Metric,
    rows: Sequence[int],
    column: int,
    visible: NDArray[np.bool_],
    segments: Mapping[tuple[int, Metric], Segment],
) -> Night:
    """The arrays of one metric for the given rows."""
    matrix = history.metrics[metric]
    picked = np.array(rows, dtype=np.int64)
    value = matrix.value[picked, column]
    before = np.array(history.baseline_rows(rows), dtype=np.int64)
    past = np.where(visible[None, :column], matrix.value[before, :column], np.nan)
    for i, row in enumerate(before.tolist()):
        segment = segments.get((row, metric))
        if segment is not None:
            past[i, ~segment.mask(column)] = np.nan
    known = np.isfinite(past)
    variance, df = matrix.variance[before, :column], (matrix.n[before, :column] - 1).astype(float)
    counted = known & np.isfinite(variance) & (df > 0)
    total_df = np.where(counted, df, 0).sum(axis=1)
    pooled = np.where(counted, df * np.nan_to_num(variance), 0).sum(axis=1) / np.maximum(total_df, 1)
    controls = metric in (Metric.LATENCY_RATIO,)
    return Night(
        metric=metric,
        device_kind=history.runs[column].device_kind,
        subjects=tuple(history.subjects[row].subject_id for row in rows),
        value=value,
        processes=matrix.n[picked, column],
        process_sd=np.sqrt(matrix.variance[picked, column]),
        history=_compact(past),
        history_process_variance=np.where(total_df > 0, pooled, np.nan),
        history_process_df=total_df,
        control=np.array([controls and history.subjects[row].role in CONTROL_ROLES for row in rows], dtype=bool),
        absent=tuple(_absent(history, row, column, float(v)) for row, v in zip(rows, value, strict=True)),
        told=np.array([segments.get((row, metric), WHOLE).finding_id is not None for row in rows], dtype=bool),
    )


def _compact(past: Floats) -> Floats:
    """Each row's known values moved to the right end, so that a window of columns is a window of runs."""
    if past.shape[1] == 0:
        return past
    order = np.argsort(np.isfinite(past), axis=1, kind="stable")
    packed = np.take_along_axis(past, order, axis=1)
    used = int(np.isfinite(packed).sum(axis=1).max(initial=0))
    return packed[:, packed.shape[1] - used :]


def _absent(history: UnitHistory, row: int, column: int, value: float) -> tuple[ReasonCode, str] | None:
    status = history.status[row, column]
    if status == "measured":
        return None if math.isfinite(value) else (ReasonCode.NO_VALUE, "This run has no such number for the series.")
    kind, said = history.status_kind[row, column], history.status_reason[row, column]
    sentence = said or f"The row is {status}{f' ({kind})' if kind else ''}."
    if status == "invalid" or kind == "impossible_value":
        code = ReasonCode(kind) if kind in set(ReasonCode) else ReasonCode.NO_VALUE
        return code, sentence
    return _OF_STATUS.get(str(status), ReasonCode.NO_VALUE), sentence


def judge_run(
    history: UnitHistory, column: int, segments: Mapping[tuple[int, Metric], Segment], policy: Policy
) -> RunVerdicts:
    """Every series of the run at `column` against its baseline runs; what is already reported is not said again."""
    visible = visible_columns(history, column)
    rows = [i for i in range(len(history.subjects)) if history.status[i, column] is not None]
    said: list[SubjectVerdict] = []
    shift: CommonShift | None = None
    scatter: dict[Metric, float] = {}
    discovery_p: dict[Metric, float] = {}
    noise: dict[Metric, NoisePool] = {}
    for metric in PAIRED_COLUMNS:
        chosen = [row for row in rows if _is_judged(history, metric, row, column)]
        if not chosen:
            continue
        night = make_night(history, metric, chosen, column, visible, segments)
        judgement = judge_night(night, policy)
        scatter[metric], discovery_p[metric] = judgement.scatter, judgement.discovery_p
        noise[metric] = judgement.noise
        if metric is not Metric.LATENCY_P99:
            shift = shift or judgement.shift
        last_good = _last_good(history, metric, chosen, visible, segments)
        for i, verdict in enumerate(judgement.verdicts):
            if verdict.code is ReasonCode.RECENT_NIGHTS:  # it may have begun with the first of those nights
                before = visible & (np.arange(visible.size) < _nights_back(visible, max(RECENT) - 1))
                last_good[i] = _last_good(history, metric, [chosen[i]], before, segments)[0]
        for row, verdict, good in zip(chosen, judgement.verdicts, last_good, strict=True):
            segment = segments.get((row, metric), WHOLE)
            subject = history.subjects[row]
            plain = SubjectVerdict(subject=subject, metric=metric, verdict=verdict, baseline_run_id=good)
            said.append(_with_finding(plain, segment, judgement.shift))
    said += _newly_failing(history, rows, column, visible, segments, policy)
    said += _gaps(history, column, visible, policy)
    steps = _further_steps(history, column, visible, segments, policy, said, noise)
    kept = [steps.get((v.subject.subject_id, v.metric), v) for v in said]
    return RunVerdicts(
        run=history.runs[column],
        column=column,
        verdicts=tuple(kept),
        shift=shift,
        scatter=scatter,
        discovery_p=discovery_p,
        noise=noise,
    )


def _is_judged(history: UnitHistory, metric: Metric, row: int, column: int) -> bool:
    """Whether the series has this metric. A row without times is judged, to say why not, under one metric only."""
    subject = history.subjects[row]
    if subject.role == "planted":
        return False  # another case each night, another size: see `planted_audit`
    if history.status[row, column] != "measured":
        return metric is (
            Metric.LATENCY_RATIO if history.paired[row] and subject.role != "optimized" else Metric.LATENCY
        )
    if metric is Metric.LATENCY_RATIO and subject.role == "optimized":
        return False
    return math.isfinite(history.metrics[metric].value[row, column])


def _nights_back(visible: NDArray[np.bool_], nights: int) -> int:
    """The column of the run so many before the newest visible one, itself excluded from what is older."""
    columns = np.flatnonzero(visible)
    return int(columns[-nights]) if columns.size >= nights else 0


def planted_audit(history: UnitHistory, judged: RunVerdicts, policy: Policy) -> list[SubjectVerdict]:
    """Would the planted slow-downs of a run have been noticed, had they happened to the optimized arm?

    Judged as if tonight's A/A copy of the case had their ratio, with the scatter and among the discoveries of the whole
    night; without earlier nights of that copy there is no answer.
    """
    ratio, column = Metric.LATENCY_RATIO, judged.column
    matrix, visible = history.metrics[ratio], visible_columns(history, column)
    copies = {s.case_id: i for i, s in enumerate(history.subjects) if s.role == "aa"}
    said = []
    for row, subject in enumerate(history.subjects):
        copy = copies.get(subject.case_id)
        if subject.role != "planted" or copy is None or not math.isfinite(matrix.value[row, column]):
            continue
        night = make_night(history, ratio, [copy], column, visible, {})
        night = replace(
            night,
            value=matrix.value[[row], column],
            processes=matrix.n[[row], column],
            process_sd=np.sqrt(matrix.variance[[row], column]),
            control=np.array([False]),
            absent=(None,),
            known_scatter=judged.scatter.get(ratio, 1.0),
            known_discovery_p=judged.discovery_p.get(ratio),
            known_noise=judged.noise.get(ratio),
        )
        said.append(SubjectVerdict(subject=subject, metric=ratio, verdict=judge_night(night, policy).verdicts[0]))
    return said


def _last_good(
    history: UnitHistory,
    metric: Metric,
    rows: Sequence[int],
    visible: NDArray[np.bool_],
    segments: Mapping[tuple[int, Metric], Segment],
) -> list[str | None]:
    """The newest baseline run of each row that has a value; None where there is none."""
    usable = np.isfinite(history.metrics[metric].value[rows]) & visible
    for i, row in enumerate(rows):
        segment = segments.get((row, metric))
        if segment is not None:
            usable[i] &= segment.mask(visible.size)
    newest = visible.size - 1 - np.argmax(usable[:, ::-1], axis=1)
    found = np.asarray(usable.any(axis=1))
    return [history.runs[c].run_id if ok else None for c, ok in zip(newest.tolist(), found.tolist(), strict=True)]


def _with_finding(out: SubjectVerdict, segment: Segment, shift: CommonShift | None) -> SubjectVerdict:
    """The verdict in the light of an open finding: still there, back, or something new."""
    verdict = out.verdict
    if segment.finding_id is None:
        return out
    out = replace(out, finding_id=segment.finding_id)
    standing = _still_there(verdict, segment, shift)
    if standing is None:
        return out
    if standing:
        worse = segment.change is None or segment.change > 0
        return replace(
            out,
            verdict=replace(
                verdict,
                status=VerdictStatus.REGRESSED if worse else VerdictStatus.IMPROVED,
                code=ReasonCode.OPEN_FINDING,
                sentence=f"Still where {segment.finding_id} reported it. {verdict.sentence}",
            ),
        )
    if out.moved and verdict.change is not None and (segment.change or 0) * verdict.change < 0:
        return replace(out, finding_id=None)
    sentence = f"Back from {segment.finding_id}. {verdict.sentence}"
    recovered = replace(verdict, status=VerdictStatus.UNCHANGED, code=ReasonCode.RECOVERED, sentence=sentence)
    return replace(out, verdict=recovered)


def _still_there(verdict: Verdict, segment: Segment, shift: CommonShift | None) -> bool | None:
    """Whether an open finding's change stands tonight: half of it or more is left. None where tonight cannot say."""
    if verdict.code in (ReasonCode.FROM_ZERO, ReasonCode.STILL_ZERO):
        return verdict.code is ReasonCode.FROM_ZERO
    if verdict.change is None:
        return None
    now = math.log1p(verdict.change)
    if segment.whole_run:
        now += math.log1p(shift.change) if shift else 0.0
    if segment.change is None:
        return now > 0
    reported = math.log1p(segment.change)
    return math.copysign(1.0, reported) * now > abs(reported) / 2


def _further_steps(
    history: UnitHistory,
    column: int,
    visible: NDArray[np.bool_],
    segments: Mapping[tuple[int, Metric], Segment],
    policy: Policy,
    said: Sequence[SubjectVerdict],
    noise: Mapping[Metric, NoisePool],
    least: int = 3,
) -> dict[tuple[str, Metric], SubjectVerdict]:
    """Second steps on top of open findings: judged against the runs since the finding, `least` of them or more."""
    standing = {
        (v.subject.subject_id, v.metric): v.verdict.change for v in said if v.verdict.code is ReasonCode.OPEN_FINDING
    }
    found: dict[tuple[str, Metric], SubjectVerdict] = {}
    for metric in PAIRED_COLUMNS:
        levels: dict[tuple[int, Metric], Segment] = {}
        for (row, of), segment in segments.items():
            if of is metric and segment.end is not None and (history.subjects[row].subject_id, metric) in standing:
                values = history.metrics[metric].value[row, segment.end : column]
                if int(np.isfinite(values[visible[segment.end : column]]).sum()) >= least:
                    levels[row, metric] = Segment(start=segment.end)
        if not levels:
            continue
        rows = [row for row, _ in levels]
        further = make_night(history, metric, rows, column, visible, levels)
        judgement = judge_night(replace(further, known_noise=noise.get(metric)), policy)
        last_good = _last_good(history, metric, rows, visible, levels)
        for row, verdict, good in zip(rows, judgement.verdicts, last_good, strict=True):
            if verdict.code is ReasonCode.BEYOND_FLOOR:
                subject = history.subjects[row]
                found[subject.subject_id, metric] = SubjectVerdict(
                    subject=subject,
                    metric=metric,
                    verdict=verdict,
                    baseline_run_id=good,
                    total_change=standing[subject.subject_id, metric],
                )
    return found


def _newly_failing(
    history: UnitHistory,
    rows: Sequence[int],
    column: int,
    visible: NDArray[np.bool_],
    segments: Mapping[tuple[int, Metric], Segment],
    policy: Policy,
) -> list[SubjectVerdict]:
    """Series that were measured the time before and are wrong or failed now; and those that run again."""
    said = []
    by_name: dict[tuple[str, str], list[int]] = {(s.case_id, s.arm): [] for s in history.subjects}
    for i, s in enumerate(history.subjects):
        by_name[s.case_id, s.arm].append(i)
    seen = np.flatnonzero(visible)
    for row in rows:
        subject, status = history.subjects[row], history.status[row, column]
        if subject.role in SILENT_ROLES or status not in ("measured", "wrong", "failed"):
            continue
        # A case that fails before it is timed has no timer in its settings, so its series key may differ: go by name.
        twins = by_name[subject.case_id, subject.arm]
        open_finding = next((segments[t, Metric.STATUS] for t in twins if (t, Metric.STATUS) in segments), None)
        if status == "measured" and open_finding is None:
            continue
        past = [(int(i), str(history.status[t, i])) for t in twins for i in seen if history.status[t, i] is not None]
        before = max(past, default=None, key=lambda p: p[0])
        if before is None:
            continue
        verdict = _status_verdict(history, row, column, before, open_finding, policy)
        if verdict is not None:
            said.append(
                SubjectVerdict(
                    subject=subject,
                    metric=Metric.STATUS,
                    verdict=verdict,
                    baseline_run_id=history.runs[before[0]].run_id,
                    finding_id=open_finding.finding_id if open_finding else None,
                )
            )
    return said


def _gaps(history: UnitHistory, column: int, visible: NDArray[np.bool_], policy: Policy) -> list[SubjectVerdict]:
    """Series of the suite that had a value before and had none in so many runs, this one the last of them: said once.

    A row without valid samples is none either. Runs that were asked for some cases only are not looked at.
    """
    run, needed = history.runs[column], policy.silence.series_runs
    if run.narrowed:
        return []
    past = [(int(c), history.runs[int(c)]) for c in np.flatnonzero(visible)]
    same = [c for c, r in past if r.suite == run.suite and not r.narrowed]
    recent, before = [*same, column][-needed:], [*same, column][:-needed]
    if len(recent) < needed or not before:
        return []
    said = []
    for row, subject in enumerate(history.subjects):
        if subject.role in SILENT_ROLES or any(history.status[row, c] not in (None, "invalid") for c in recent):
            continue
        if history.status[row, before[-1]] in (None, "invalid"):
            continue
        last = history.runs[before[-1]]
        why = next((history.status_reason[row, c] for c in recent if history.status[row, c] is not None), None)
        sentence = (
            f"No {'valid sample' if why else 'row'} in the last {needed} runs of suite {run.suite}; "
            f"the last one is of run {last.run_id}.{f' {why}' if why else ''}"
        )
        verdict = not_judged(ReasonCode.GAP, sentence, policy=policy.name, policy_version=policy.version)
        said.append(SubjectVerdict(subject=subject, metric=Metric.STATUS, verdict=verdict, baseline_run_id=last.run_id))
    return said


def _status_verdict(
    history: UnitHistory,
    row: int,
    column: int,
    before: tuple[int, str],
    open_finding: Segment | None,
    policy: Policy,
) -> Verdict | None:
    status, kind = history.status[row, column], history.status_kind[row, column]
    words = f"{status}{f': {kind}' if kind else ''}"
    reason = history.status_reason[row, column] or ""
    base = not_judged(ReasonCode.FAILED, "", policy=policy.name, policy_version=policy.version)
    if status == "measured":
        if open_finding is None:
            return None
        sentence = f"Measured again; {open_finding.finding_id} had reported it failing."
        return replace(base, status=VerdictStatus.UNCHANGED, code=ReasonCode.RECOVERED, sentence=sentence)
    if open_finding is not None:
        sentence = f"Still {words}, as {open_finding.finding_id} reported. {reason}".strip()
        return replace(base, status=VerdictStatus.REGRESSED, code=ReasonCode.OPEN_FINDING, sentence=sentence)
    if before[1] != "measured":
        return None
    sentence = f"Measured in run {history.runs[before[0]].run_id}, {words} now. {reason}".strip()
    return replace(base, status=VerdictStatus.REGRESSED, code=ReasonCode.NEWLY_FAILING, sentence=sentence)
