"""What became of the messages about findings: told, waiting, or given up; from the outbox, the table `deliveries`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dashboard.data.source import ask

# The order of a delivery's events is (attempt, event), not the clock: clocks jump.
LATEST = """
select d.finding_id, d.route, d.event, d."at", d.attempt, coalesce(d.response, '') as response,
       d.delivery_id
from deliveries d
qualify row_number() over (
    partition by d.delivery_id
    order by d.event = 'sent' desc, d.attempt desc, list_position(['failed', 'dead', 'queued', 'sent'], d.event) desc
) = 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The newest event of one message on one route."""

    delivery_id: str
    finding_id: str
    route: str
    event: str
    """queued, failed (it is tried again), sent, dead (given up)."""
    at: datetime
    attempt: int
    response: str

    @property
    def words(self) -> str:
        """What became of it, in words."""
        match self.event:
            case "sent":
                return f"told on {self.route}"
            case "dead":
                return f"could not be told on {self.route}: given up at try {self.attempt:,}"
            case "failed":
                return f"waits for {self.route} after try {self.attempt:,}"
            case _:
                return f"waits for {self.route}"


def deliveries_of(finding_id: str) -> list[Delivery]:
    """The messages about one finding."""
    return ask(Delivery, f"select * from ({LATEST}) where finding_id = $id", {"id": finding_id})  # noqa: S608


def dead_letters() -> list[Delivery]:
    """Messages that were given up and not revived, the newest first."""
    return ask(Delivery, f"""select * from ({LATEST}) where event = 'dead' order by "at" desc""")  # noqa: S608
