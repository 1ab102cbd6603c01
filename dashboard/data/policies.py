"""What the policies have said so far: counts of verdicts, and what another floor would have said of the same nights."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dashboard.data.source import ask


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyUse:
    """A version of a policy, and its verdicts against history."""

    policy: str
    policy_version: str
    metric: str
    verdicts: int
    regressed: int
    improved: int
    unchanged: int
    inconclusive: int
    not_judged: int
    first_at: datetime
    last_at: datetime


USES_QUERY = """
select coalesce(policy, 'unnamed') as policy, coalesce(policy_version, 'no version') as policy_version, metric,
       count(*) as verdicts, count(*) filter (status = 'regressed') as regressed,
       count(*) filter (status = 'improved') as improved, count(*) filter (status = 'unchanged') as unchanged,
       count(*) filter (status = 'inconclusive') as inconclusive,
       count(*) filter (status = 'not_judged') as not_judged, min(made_at) as first_at, max(made_at) as last_at
from verdicts where against = 'history' group by 1, 2, 3 order by last_at desc, 1, 2, 3
"""


def uses() -> list[PolicyUse]:
    return ask(PolicyUse, USES_QUERY)


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """What a floor would have called in the nights that were judged."""

    metric: str
    judged: int
    would_regress: int
    would_improve: int
    confirmed: int
    """Of those it would have called slower: series that are members of a finding that was confirmed."""


DRY_QUERY = """
with judged as (
  select v.metric, v.subject_id, v.run_id, v.change, v.change_low, v.change_high
  from verdicts v
  where v.against = 'history' and v.tier = 'tonight' and v.change is not null and v.made_at >= $since
), sure as (
  select distinct unnest(subject_ids) as subject_id, metric from findings_state
  where state in ('confirmed', 'acknowledged', 'reopened', 'expected', 'resolved', 'snoozed') and direction > 0
)
select j.metric, count(*) as judged,
       count(*) filter (j.change_low > $floor) as would_regress,
       count(*) filter (j.change_high < -$floor / (1 + $floor)) as would_improve,
       count(*) filter (j.change_low > $floor and s.subject_id is not null) as confirmed
from judged j left join sure s on s.subject_id = j.subject_id and s.metric = j.metric
group by 1 order by 1
"""


def dry_run(floor: float, since: datetime) -> list[DryRun]:
    """The verdicts since then, judged again by their intervals against another floor.

    It moves the floor only: the noise model and the false-discovery rule of the night stay as they were, so it says how
    many intervals would have been clear of that floor.
    """
    return ask(DryRun, DRY_QUERY, {"floor": floor, "since": since})
