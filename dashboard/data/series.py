"""One case on one device through time: all its arms, the environments of its runs, the changes found on it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median

from dashboard.data.source import ask, table


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A series and the words it is called by."""

    subject_id: str
    case_id: str
    family: str | None
    title: str | None
    shape: str | None
    weight: float | None
    arm: str
    role: str | None
    device_kind: str | None
    device_model: str | None
    device_slice: str | None
    device_unit: str | None
    host: str | None
    settings: str | None
    implementation: str | None
    n_runs: int
    status: str | None
    status_kind: str | None
    status_reason: str | None
    latest_at: datetime | None
    latest_run_id: str | None
    verdict: str | None
    verdict_sentence: str | None
    smallest_visible_change: float | None

    @property
    def name(self) -> str:
        return self.title or self.case_id

    @property
    def place(self) -> tuple[str | None, str | None, str | None]:
        """What all arms of a case on a device have in common."""
        return self.case_id, self.device_unit, self.settings


SUBJECT_FIELDS = ", ".join(f"s.{name}" for name in Subject.__dataclass_fields__)
ARM_ORDER = "case s.role when 'candidate' then 0 when 'optimized' then 1 when 'naive' then 2 else 3 end, s.arm"


def subject(subject_id: str) -> Subject | None:
    found = ask(Subject, f"select {SUBJECT_FIELDS} from series s where s.subject_id = $id", {"id": subject_id})  # noqa: S608
    return found[0] if found else None


def default_subject(family: str | None = None, device: str | None = None, case_id: str | None = None) -> Subject | None:
    """The heaviest candidate's series, of a family, a device model or a case where they are given."""
    query = f"""
        select {SUBJECT_FIELDS} from series s
        where s.device_kind is distinct from 'static'
          and ($family is null or s.family = $family) and ($case_id is null or s.case_id = $case_id)
          and ($device is null or s.device_model = $device or s.device_unit = $device)
        order by {ARM_ORDER.split(",")[0]}, s.weight desc nulls last, s.n_runs desc, s.subject_id limit 1
    """  # noqa: S608
    found = ask(Subject, query, {"family": family, "device": device, "case_id": case_id})
    return found[0] if found else None


def arms_of(chosen: Subject) -> list[Subject]:
    """All series of the case on the device with the settings, candidates first."""
    query = f"""
        select {SUBJECT_FIELDS} from series s
        where s.case_id = $case_id and s.device_unit is not distinct from $unit
          and s.settings is not distinct from $settings
        order by {ARM_ORDER}
    """  # noqa: S608
    parameters = {"case_id": chosen.case_id, "unit": chosen.device_unit, "settings": chosen.settings}
    return ask(Subject, query, parameters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """An entry of a chooser: the series it leads to and what is written."""

    subject_id: str
    name: str


FAMILIES_QUERY = """
select distinct coalesce(family, 'other') as family from series where device_kind is distinct from 'static' order by 1
"""


def families() -> list[str]:
    found = table(FAMILIES_QUERY)
    return [str(name) for name in found["family"].to_pylist()]


def cases(family: str, chosen: Subject) -> list[Choice]:
    """The cases of a family, heaviest first, each by a series on the chosen device where there is one."""
    query = """
        with ranked as (
          select s.subject_id, s.case_id, s.weight,
                 coalesce(s.title, s.case_id) || coalesce(' · ' || s.shape, '') as name,
                 row_number() over (partition by s.case_id order by
                   s.device_unit is not distinct from $unit desc, s.settings is not distinct from $settings desc,
                   s.role = $role desc, s.role = 'candidate' desc, s.subject_id) as place
          from series s where coalesce(s.family, 'other') = $family and s.device_kind is distinct from 'static'
        )
        select subject_id, name from ranked where place = 1 order by weight desc nulls last, name limit 5000
    """
    given = {"family": family, "unit": chosen.device_unit, "settings": chosen.settings, "role": chosen.role}
    return ask(Choice, query, given)


def places(chosen: Subject) -> list[Choice]:
    """Where the case was measured: devices, and settings where a device has several."""
    query = """
        with ranked as (
          select s.subject_id, s.device_model, s.device_unit, s.settings, s.latest_at,
                 coalesce(s.device_model, s.device_kind, 'unknown device') || coalesce(' ' || s.device_slice, '')
                   || coalesce(' · ' || s.host, '') as device,
                 count(*) over (partition by s.device_model, s.host, s.role, s.arm) as alike,
                 row_number() over (partition by s.device_unit, s.settings order by
                   s.arm = $arm desc, s.role = 'candidate' desc, s.subject_id) as place
          from series s where s.case_id = $case_id
        )
        select subject_id, device || case when alike > 1 then ' · ' || coalesce(device_unit, '') || ' '
               || coalesce(settings, '') else '' end as name
        from ranked where place = 1 order by name limit 5000
    """
    return ask(Choice, query, {"case_id": chosen.case_id, "arm": chosen.arm})


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What one arm did in one run."""

    at: datetime
    run_id: str
    arm: str
    role: str | None
    kind: str | None
    status: str
    status_kind: str | None
    status_reason: str | None
    latency_p50_s: float | None
    latency_p95_s: float | None
    latency_p99_s: float | None
    latency_n: int | None
    latency_basis: str | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    rounds: int | None
    replicates: int | None
    ratio_timer: str | None
    roofline_latency_s: float | None
    revision: str | None

    @property
    def counts(self) -> bool:
        """Whether its numbers are evidence."""
        return self.status == "measured"


POINTS_QUERY = """
select r.measured_at as at, r.run_id, r.arm, r.role, u.kind, r.status, r.status_kind, r.status_reason, r.latency_p50_s,
       r.latency_p95_s, r.latency_p99_s, r.latency_n, r.latency_basis, r.ratio_optimized as ratio,
       r.ratio_optimized_low as ratio_low, r.ratio_optimized_high as ratio_high, r.rounds, r.replicates, r.ratio_timer,
       r.roofline_latency_s, u.revision
from results r join runs u using (run_id)
where r.subject_id in ({subjects}) and r.month >= $month and r.measured_at >= $since
order by r.measured_at, r.run_id, r.arm
"""


def history_query(count: int) -> str:
    """The question behind the figure, for `count` series ($s0, $s1 ...)."""
    return POINTS_QUERY.format(subjects=", ".join(f"$s{i}" for i in range(count)))


def history_parameters(arms: Sequence[Subject], since: datetime) -> dict[str, object]:
    """What is bound: the series, and the first instant (with its month, by which whole files are left out)."""
    subjects = {f"s{i}": arm.subject_id for i, arm in enumerate(arms)}
    return subjects | {"since": since, "month": f"{since - timedelta(days=40):%Y-%m}"}


def history(arms: Sequence[Subject], since: datetime) -> list[Point]:
    """Every run of the arms since then, oldest first."""
    return ask(Point, history_query(len(arms)), history_parameters(arms, since))


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A finding on one of the arms."""

    finding_id: str
    state: str
    finding_class: str | None
    direction: int
    metric: str
    arm: str | None
    since_at: datetime | None
    change: float | None
    change_low: float | None
    change_high: float | None


def changes(arms: Sequence[Subject]) -> list[Change]:
    """The findings on these series that were not refuted, oldest first."""
    placeholders = ", ".join(f"$s{i}" for i in range(len(arms)))
    query = f"""
        select finding_id, state, finding_class, direction, metric, arm, since_at, change, change_low, change_high
        from findings_state
        where state <> 'refuted' and (subject_id in ({placeholders})
              or len(list_intersect(subject_ids, [{placeholders}])) > 0)
        order by since_at, finding_id
    """  # noqa: S608
    return ask(Change, query, {f"s{i}": arm.subject_id for i, arm in enumerate(arms)})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnvironment:
    """The environment of one run of a device."""

    at: datetime
    run_id: str
    environment: str | None
    driver: str | None
    torch: str | None
    triton: str | None
    method_version: str | None
    clocks_policy: str | None
    host_image: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentChange:
    """A field that differs between two neighbouring runs."""

    at: datetime
    run_id: str
    name: str
    before: str
    after: str


PLANNED_FIELDS = ("driver", "torch", "triton", "method_version", "clocks_policy", "host_image")
NEVER_MARKED = ("revision", "started_at", "run_id", "seed")
"""The revision has an axis of its own; the others are different in every run by construction."""
MOST_OFTEN = 0.25
"""A field that changes between more of the neighbouring runs than this says nothing about any of them."""


def environments(device_unit: str | None, since: datetime) -> list[RunEnvironment]:
    query = """
        select started_at as at, run_id, environment, driver, torch, triton, method_version, clocks_policy, host_image
        from runs where device_unit is not distinct from $unit and started_at >= $since and kind <> 'confirm'
        order by started_at, run_id
    """
    return ask(RunEnvironment, query, {"unit": device_unit, "since": since})


def environment_fields(run: RunEnvironment) -> dict[str, str]:
    """Field -> text: the fingerprint, and the columns that are planned changes."""
    try:
        parsed = json.loads(run.environment or "{}")
    except ValueError:
        parsed = {}
    found = {str(k): str(v) for k, v in parsed.items()} if isinstance(parsed, dict) else {}
    for name in PLANNED_FIELDS:
        value = getattr(run, name)
        if value is not None:
            found[name] = str(value)
    return found


def environment_changes(runs: Sequence[RunEnvironment]) -> list[EnvironmentChange]:
    """Where the environment differs from the run before; fields that change all the time are left out."""
    found: list[EnvironmentChange] = []
    fields_of = [environment_fields(run) for run in runs]
    for before, after, run in zip(fields_of, fields_of[1:], runs[1:], strict=False):
        for name in sorted(set(before) | set(after)):
            if name not in NEVER_MARKED and before.get(name) != after.get(name):
                was, now = before.get(name, "absent"), after.get(name, "absent")
                found.append(EnvironmentChange(at=run.at, run_id=run.run_id, name=name, before=was, after=now))
    return list(_rare(found, len(runs) - 1))


def _rare(found: Sequence[EnvironmentChange], steps: int) -> Iterable[EnvironmentChange]:
    most = max(2.0, MOST_OFTEN * steps)
    for one in found:
        if one.name in PLANNED_FIELDS or sum(other.name == one.name for other in found) <= most:
            yield one


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """The raw values of one arm in one process of one run, in seconds a call."""

    arm: str
    replicate: int
    phase: str
    calls_per_sample: int | None
    wall_s: list[float]
    thread_s: list[float]
    device_s: list[float]
    mark: list[str]
    round: list[int] = field(default_factory=list)

    def values(self, timer: str | None) -> list[float]:
        """By the clock of the ratios where it has values, else by the wall clock."""
        if timer == "device_event" and self.device_s:
            return self.device_s
        return self.thread_s if timer == "thread_time" and self.thread_s else self.wall_s


def samples(arms: Sequence[Subject], run_id: str) -> list[Samples]:
    placeholders = ", ".join(f"$s{i}" for i in range(len(arms)))
    query = f"""
        select arm, replicate, "pass" as phase, calls_per_sample, coalesce(wall_s, []) as wall_s,
               coalesce(thread_s, []) as thread_s, coalesce(device_s, []) as device_s, coalesce(mark, []) as mark,
               coalesce("round", []) as round
        from samples where subject_id in ({placeholders}) and run_id = $run
        order by "pass", arm, replicate
    """  # noqa: S608
    return ask(Samples, query, {f"s{i}": arm.subject_id for i, arm in enumerate(arms)} | {"run": run_id})


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The level that the newest value is compared with, and since when it holds."""

    since: datetime
    level: float
    n: int


def baseline(points: Sequence[Point], found: Sequence[Change], arm: str) -> Baseline | None:
    """Median ratio of the arm between the last change but the open one and the newest change."""
    values = [(p.at, p.ratio) for p in points if p.arm == arm and p.counts and p.ratio is not None]
    steps = sorted(c.since_at for c in found if c.since_at is not None and c.metric.startswith("latency"))
    while steps and not [1 for at, _ in values if at >= steps[-1]]:
        steps.pop()
    last = steps[-1] if steps else None
    before = steps[-2] if len(steps) > 1 else None
    used = [(at, r) for at, r in values if (last is None or at < last) and (before is None or at >= before)]
    if last is not None and not used:
        used = values
    if len(used) < 2:
        return None
    return Baseline(since=used[0][0], level=median(r for _, r in used), n=len(used))
