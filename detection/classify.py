"""What moved, and what probably moved it: from the arms' own histories and from the fields that differ."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

from detection.verdict import UNPAIRED, Metric


class FindingClass(StrEnum):
    """The six causes that a change can have."""

    CODE = "code"
    ENVIRONMENT = "environment"
    """Driver, compiler, libraries, clocks."""
    HOST = "host"
    """One device or node."""
    METHOD = "method"
    """The harness or the suite."""
    BASELINE = "baseline"
    """The denominator moved, not the kernel."""
    NOISE = "noise"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A field of the run that is not the same in the last good and the first bad run; None where it is not known."""

    field: str
    good: str | None
    bad: str | None


CODE_FIELDS = ("revision", "implementation", "source", "binary", "autotune", "candidate")
METHOD_FIELDS = ("method", "timer", "harness")
NO_CAUSE = ("suite", "seed", "replicates", "command", "note", "wall", "sentinel.")
"""What a run was asked to do, and who ran beside it: a case of it is the same case whatever else stood in its suite."""
UNIT_TOLERANCE = 0.05
"""Relative distance from a power of a thousand within which a change is taken for one of unit."""
HOST_FIELDS = ("host", "device_unit", "slot", "serial")


def field_class(name: str) -> FindingClass:
    """The class that a differing field speaks for, by its name; what is not known is environment."""
    if name == "host_image":
        return FindingClass.ENVIRONMENT
    for prefixes, finding_class in (
        (CODE_FIELDS, FindingClass.CODE),
        (METHOD_FIELDS, FindingClass.METHOD),
        (HOST_FIELDS, FindingClass.HOST),
    ):
        if name.startswith(prefixes):
            return finding_class
    return FindingClass.ENVIRONMENT


def differences(
    good: Mapping[str, str | None], bad: Mapping[str, str | None], *, volatile: Iterable[str] = ()
) -> tuple[Difference, ...]:
    """The fields that differ, by name; those that change every night, or cannot cause it, are left out."""
    skip = set(volatile)
    names = sorted(set(good) | set(bad))
    return tuple(
        Difference(field=name, good=good.get(name), bad=bad.get(name))
        for name in names
        if name not in skip and not name.startswith(NO_CAUSE) and good.get(name) != bad.get(name)
    )


def volatile_fields(environments: Sequence[Mapping[str, str | None]], share: float = 0.3) -> frozenset[str]:
    """Fields that changed in more than `share` of the steps from run to run, with at least 4 steps to judge by."""
    steps = list(pairwise(environments))
    if len(steps) < 4:
        return frozenset()
    names = {name for environment in environments for name in environment}
    return frozenset(n for n in names if sum(a.get(n) != b.get(n) for a, b in steps) > share * len(steps))


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmsMoved:
    """Relative changes of the same case's arms against their own histories; None where not known."""

    candidate_ratio: float | None = None
    """Of candidate over optimized."""
    naive_ratio: float | None = None
    """Of naive over optimized."""
    candidate_latency: float | None = None
    optimized_latency: float | None = None


def baseline_moved(arms: ArmsMoved, floor: float) -> bool:
    """Whether the denominator explains the change of candidate over optimized.

    When the optimized arm alone gets faster, every arm's ratio to it rises alike; so naive over optimized, paired in
    the same processes, is the witness. Without it the arms' own latencies are, less surely: the optimized arm moved the
    other way by more than half of the change, and by more than the candidate.
    """
    change = arms.candidate_ratio
    if change is None or abs(change) <= floor / 2:
        return False
    if arms.naive_ratio is not None:
        return arms.naive_ratio * change > 0 and abs(arms.naive_ratio) >= 0.5 * abs(change)
    if arms.optimized_latency is None or arms.candidate_latency is None:
        return False
    opposite = arms.optimized_latency * change < 0
    return (
        opposite
        and abs(arms.optimized_latency) > 0.5 * abs(change)
        and abs(arms.optimized_latency) > abs(arms.candidate_latency)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The most probable class with one sentence that says why."""

    finding_class: FindingClass
    sentence: str


def classify(
    differing: Sequence[Difference],
    *,
    denominator_moved: bool,
    whole_run_moved: bool,
    operators_moved: int,
    operators_measured: int,
    paired: bool = True,
) -> Cause:
    """The class of a group that moved together.

    Arms come first (a paired ratio cannot be wrong about who moved), then how far the move reached, then which fields
    differ. `paired`: the metric is a ratio to the optimized arm, so that arm is known not to have moved.
    """
    by_class: dict[FindingClass, list[str]] = {}
    for difference in differing:
        by_class.setdefault(field_class(difference.field), []).append(_words(difference))
    environment = _listed(by_class.get(FindingClass.ENVIRONMENT, []))
    method = _listed(by_class.get(FindingClass.METHOD, []))
    code = _listed(by_class.get(FindingClass.CODE, []))
    host = _listed(by_class.get(FindingClass.HOST, []))
    if denominator_moved:
        why = f"; what differs: {environment}" if environment else ""
        return Cause(
            finding_class=FindingClass.BASELINE,
            sentence=f"The optimized arm moved: naive and candidate moved alike against it{why}.",
        )
    if method:
        return Cause(finding_class=FindingClass.METHOD, sentence=f"The way of measuring changed: {method}.")
    if whole_run_moved:
        if environment:
            return Cause(
                finding_class=FindingClass.ENVIRONMENT,
                sentence=f"All series of the run moved together, and the environment differs: {environment}.",
            )
        reason = f": {host}" if host else ", and no field of the environment differs"
        return Cause(finding_class=FindingClass.HOST, sentence=f"All series of the run moved together{reason}.")
    wide = operators_measured >= 3 and operators_moved >= 0.7 * operators_measured
    reach = f"{operators_moved} of {operators_measured} operators moved"
    if environment and (wide or not code):
        also = f" (also differs: {code})" if code else ""
        return Cause(
            finding_class=FindingClass.ENVIRONMENT, sentence=f"{reach}; the environment differs: {environment}{also}."
        )
    if code:
        also = f" (also differs: {environment})" if environment else ""
        return Cause(finding_class=FindingClass.CODE, sentence=f"{reach}; the code differs: {code}{also}.")
    if host:
        return Cause(finding_class=FindingClass.HOST, sentence=f"{reach}; the host differs: {host}.")
    others = ", the optimized arm did not," if paired else ""
    return Cause(
        finding_class=FindingClass.CODE,
        sentence=f"{reach}{others} and no recorded field differs: its own code or compilation.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeIdentity:
    """What a run kept of the code behind a series; None where it is not known."""

    sources: str | None = None
    """Hash of the files that define it."""
    binary: str | None = None
    """Hash of its machine code, compiled ahead of time at the run's revision."""
    configuration: str | None = None
    """What an autotuner chose."""


UNRECORDED = "an environment variable, a choice that a tuner cached, a file that it reads"
"""What moves a kernel and stands in no run."""


def reconsider(
    cause: Cause, differing: Sequence[Difference], good: CodeIdentity, bad: CodeIdentity, *, metric: Metric
) -> tuple[Cause, tuple[Difference, ...]]:
    """The cause in the light of the code itself, with what of it differs in front of the other fields.

    Only `code` is reconsidered. What is known of the code is ranked: another choice of configuration explains; another
    binary is `code`, and from equal sources by another compilation; an equal binary, or equal sources where no binary
    is known, are not to blame, so that a field of the environment or of the host is, where one differs. Where none
    does, a time alone has the host in it. A paired ratio has not: both arms ran in turn on the same device, and one
    moved. Nor has memory, or an error. There it is `code` outside of these sources where the revision differs, and
    else, or with an equal binary, `environment`: something that no run records.
    """
    more = _code_differences(good, bad)
    fields = (*more, *differing)
    if cause.finding_class is not FindingClass.CODE:
        return cause, fields
    changed = {d.field: d for d in more}
    same_sources = good.sources is not None and good.sources == bad.sources
    same_binary = good.binary is not None and good.binary == bad.binary
    environment = _of_class(differing, FindingClass.ENVIRONMENT)
    if tuned := changed.get("autotune"):
        by = "The code is the same, but its autotuner" if same_sources or same_binary else "The autotuner"
        return replace(cause, sentence=f"{by} chose differently: {tuned.good} → {tuned.bad}. {cause.sentence}"), fields
    if "binary" in changed and same_sources:
        compiled = f"Its sources are the same, its machine code is not: {_words(changed['binary'])}"
        if environment:
            words = f"{compiled}; {environment} differs."
            return Cause(finding_class=FindingClass.ENVIRONMENT, sentence=words), fields
        return replace(cause, sentence=f"{compiled}. {cause.sentence}"), fields
    if "binary" in changed or not (same_sources or same_binary):
        return cause, fields
    return _not_its_code(differing, good, metric, same_binary=same_binary), fields


def _not_its_code(differing: Sequence[Difference], good: CodeIdentity, metric: Metric, *, same_binary: bool) -> Cause:
    """The cause of a change of a series whose code is known to be the same."""
    known = good.binary if same_binary else good.sources
    same = f"the {'machine code is' if same_binary else 'sources are'} the same ({known[:12] if known else ''})"
    for finding_class in (FindingClass.ENVIRONMENT, FindingClass.HOST):
        if named := _of_class(differing, finding_class):
            return Cause(finding_class=finding_class, sentence=f"{named} differs; {same}, so they did not cause this.")
    if metric in UNPAIRED or metric is Metric.STATUS:
        what = "a failure may" if metric is Metric.STATUS else "a time alone may"
        words = f"No field of the environment differs, and {same}; {what} have the host in it."
        return Cause(finding_class=FindingClass.HOST, sentence=words)
    paired = metric is Metric.LATENCY_RATIO
    not_host = (
        "the optimized arm, in turn with it on the same device, did not move"
        if paired
        else f"the host has no part in {metric.value.replace('_', ' ')}"
    )
    revision = next((d for d in differing if d.field == "revision"), None)
    if revision is not None and not same_binary:
        words = f"Known: {same}, and {not_host}. {_words(revision)} changed something outside of them, or {UNRECORDED}."
        return Cause(finding_class=FindingClass.CODE, sentence=words)
    words = f"Known: {same}, {not_host}, and no recorded field of the environment differs. Not known: {UNRECORDED}."
    return Cause(finding_class=FindingClass.ENVIRONMENT, sentence=words)


def _code_differences(good: CodeIdentity, bad: CodeIdentity) -> tuple[Difference, ...]:
    """What of the code is known of both and not the same; hashes by their first twelve digits."""
    pairs = (
        ("autotune", good.configuration, bad.configuration),
        ("binary", good.binary and good.binary[:12], bad.binary and bad.binary[:12]),
        ("source", good.sources and good.sources[:12], bad.sources and bad.sources[:12]),
    )
    return tuple(
        Difference(field=name, good=before, bad=after)
        for name, before, after in pairs
        if before is not None and after is not None and before != after
    )


def _of_class(differing: Sequence[Difference], finding_class: FindingClass) -> str:
    return _listed([_words(d) for d in differing if field_class(d.field) is finding_class])


def alternatives(cause: Cause, differing: Sequence[Difference], *, moved: int, measured: int) -> tuple[str, ...]:
    """What else could have caused it, the more probable first: the classes of the fields that differ and do not explain
    it already.

    A change that reached most operators speaks for what they share; one that reached few, for code of their own.
    """
    shared = moved / measured if measured else 0.0
    weight = {
        FindingClass.CODE: 1.0 - shared,
        FindingClass.ENVIRONMENT: shared,
        FindingClass.METHOD: 0.5,
        FindingClass.HOST: 0.1 + shared / 2,
    }
    by_class: dict[FindingClass, list[str]] = {}
    for difference in differing:
        by_class.setdefault(field_class(difference.field), []).append(_words(difference))
    others = sorted((c for c in by_class if c is not cause.finding_class), key=lambda c: (-weight.get(c, 0.0), c.value))
    return tuple(f"{c.value}: {_listed(by_class[c])}" for c in others)


def unit_step(change: float | None) -> Cause | None:
    """The cause of a value that became a thousand, a million or a billion times as much, or as little: a unit.

    No kernel moves by a power of a thousand to within `UNIT_TOLERANCE`; a file whose numbers changed their unit and
    not its name does. None for any other relative change.
    """
    if change is None or change <= -1:
        return None
    size = math.log(1 + change)
    steps = round(size / math.log(1000))
    if steps == 0 or abs(size - steps * math.log(1000)) > math.log1p(UNIT_TOLERANCE):
        return None
    factor = f"{1000 ** abs(steps):,}"
    words = f"The values became {factor} times as {'much' if steps > 0 else 'little'}: a unit, not a speed."
    return Cause(finding_class=FindingClass.METHOD, sentence=words)


def _words(difference: Difference) -> str:
    return f"{difference.field} {difference.good or 'unknown'} → {difference.bad or 'unknown'}"


def _listed(words: Sequence[str], most: int = 3) -> str:
    shown = ", ".join(words[:most])
    return f"{shown} and {len(words) - most} more" if len(words) > most else shown
