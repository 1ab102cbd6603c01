"""What goes wrong with a bundle.

BundleError            one line: what, the value, the rule, the way out
├── RowsError          rows do not fit the table's schema
├── FutureBundleError  written by a newer version than this one reads
└── GoneBundleError    no longer in the inbox: another took it
"""

from __future__ import annotations


class BundleError(Exception):
    """A bundle that cannot be written or cannot be trusted; the message is one line."""


class RowsError(BundleError):
    """Rows that do not fit the schema of their table."""


class FutureBundleError(BundleError):
    """A bundle whose schema version is newer than the one known here."""


class GoneBundleError(BundleError):
    """A bundle that is not in the inbox any more."""
