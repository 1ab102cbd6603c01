"""Links that say one thing of one finding: which act, until when, and a seal that their maker alone can set.

A link is a right: whoever holds it may do that one act once, on a page with a button; opening the page does nothing.
The seal is HMAC-SHA256 (RFC 2104) over version, finding, act and end of the link, cut to 144 bits (RFC 2104, section 5,
asks for at least half of the hash's 256) and written in URL-safe Base64.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass
from datetime import UTC, datetime

from detection.findings import TriageKind

SECRET_VARIABLE = "KERNEL_OBSERVATORY_LINK_SECRET"
"""Environment variable of host and dashboard: the secret, or `file:/path` to it. Without it there are no such links."""
LEAST_SECRET = 16
"""Characters below which a secret is refused: a link can be tried against a short one at home."""
LINK_ACTS = (TriageKind.ACKNOWLEDGED, TriageKind.SNOOZED, TriageKind.EXPECTED)
SNOOZE_DAYS = 7
"""How long a finding is quiet that is snoozed by a link, from the press of the button."""

_SEAL_BYTES = 18


class ActLinkError(ValueError):
    """A link that is not accepted; one line for the person who opened it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActLink:
    """The right to say `act` of a finding until `ends_at` (UTC, whole seconds)."""

    finding_id: str
    act: TriageKind
    ends_at: datetime

    @property
    def event_id(self) -> str:
        """The id of the event that the link's button writes: pressed twice, it is said once."""
        return hashlib.sha256(f"link {_signed_text(self)}".encode()).hexdigest()[:32]

    def parameters(self, secret: str) -> dict[str, str]:
        """The query parameters of the page `findings`."""
        ends = str(int(self.ends_at.timestamp()))
        return {"finding": self.finding_id, "act": self.act.value, "ends": ends, "seal": seal(self, secret)}


def seal(link: ActLink, secret: str) -> str:
    """What only a holder of the secret can compute, 24 characters. Raises ActLinkError where the secret is short."""
    if len(secret) < LEAST_SECRET:
        raise ActLinkError(f"the secret in ${SECRET_VARIABLE} is too short: it must have {LEAST_SECRET} characters")
    digest = hmac.new(secret.encode(), _signed_text(link).encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest[:_SEAL_BYTES]).decode()


def read_link(finding_id: str, act: str, ends: str, given_seal: str, *, secret: str, now: datetime) -> ActLink:
    """The link behind the parameters of an address. Raises ActLinkError where it was changed or is over."""
    changed = ActLinkError("This link was changed on its way, or made with another secret; nothing was done.")
    if act not in LINK_ACTS or not ends.isascii() or not ends.isdigit() or len(ends) > 11:
        raise changed
    link = ActLink(finding_id=finding_id, act=TriageKind(act), ends_at=datetime.fromtimestamp(int(ends), UTC))
    if not hmac.compare_digest(seal(link, secret).encode(), given_seal.encode()):
        raise changed
    if link.ends_at <= now:
        over = f"{link.ends_at.day} {link.ends_at:%b %Y, %H:%M} UTC"
        raise ActLinkError(f"This link ended on {over}; open the finding and act there.")
    return link


def _signed_text(link: ActLink) -> str:
    return f"v1\n{link.finding_id}\n{link.act.value}\n{int(link.ends_at.timestamp())}"
