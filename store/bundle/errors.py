"""What goes wrong with a bundle.

BundleError            one line: what, the value, the rule, the way out
├── RowsError          rows do not fit the table's schema
├── FutureBundleError  written by a newer version than this one reads
├── GoneBundleError    no longer in the inbox: another took it
└── PlaceError         a place that cannot be reached, read or written
    ├── NoStoreError   it is no store: not mounted, mistyped, or not made yet
    └── FullPlaceError no space is left on its device
"""

from __future__ import annotations

import errno
import re

_ESCAPES = re.compile(r"\x1b\[[0-9;]*m|↳")
_MOST_CHARACTERS = 300
_FULL = ("No space left on device", "Disk quota exceeded")
_PLAIN = {
    **dict.fromkeys(_FULL, "no space is left on its device; free some and do it again, what was published is safe"),
    "NoSuchBucket": "there is no such bucket; make it, or mend the address",
    "InvalidAccessKeyId": "the service does not know this access key; see AWS_ACCESS_KEY_ID",
    "SignatureDoesNotMatch": "the service refuses this secret key; see AWS_SECRET_ACCESS_KEY",
    "AccessDenied": "access denied by the service; the credentials in AWS_ACCESS_KEY_ID may not do this",
}
"""What a message of the libraries holds, and what is said instead."""


class BundleError(Exception):
    """A bundle that cannot be written or cannot be trusted; the message is one line."""


class RowsError(BundleError):
    """Rows that do not fit the schema of their table."""


class FutureBundleError(BundleError):
    """A bundle whose schema version is newer than the one known here."""


class GoneBundleError(BundleError):
    """A bundle that is not in the inbox any more."""


class PlaceError(BundleError):
    """A place that cannot be reached, read or written; the message is one line."""


class NoStoreError(PlaceError):
    """A place that should be a store and is none."""


class FullPlaceError(PlaceError):
    """A place without space for what is to be written; nothing half-written counts."""


def is_full(error: BaseException) -> bool:
    """Whether an error, whichever library raised it, says that a disk or a quota is full."""
    number = getattr(error, "errno", None)
    return number in (errno.ENOSPC, errno.EDQUOT) or any(words in str(error) for words in _FULL)


def in_one_line(error: BaseException) -> str:
    """The many coloured lines of a library's error as one, without the XML of an S3 service."""
    text = _ESCAPES.sub("", str(error))
    for words, plain in _PLAIN.items():
        if words in text:
            return plain
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    lines = []
    for line in text.splitlines():
        if line.lstrip().startswith(("<", "Debug source")):
            break
        lines.append(line.strip())
    return ": ".join(filter(None, lines))[:_MOST_CHARACTERS] or type(error).__name__
