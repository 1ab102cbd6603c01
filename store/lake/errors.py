"""What goes wrong with a store.

StoreError         one line: what, the value, the rule, the way out
├── StoreBusyError another process holds the lock or the lease
├── StoreFullError no space is left on its device
├── TableLostError a table that it was made with is not there
└── QueryError     a question that cannot be asked or answered
"""

from __future__ import annotations


class StoreError(Exception):
    """A store that is none, cannot be reached or refuses; the message is one line."""


class StoreBusyError(StoreError):
    """Another process does the work at this moment."""


class StoreFullError(StoreError):
    """A store that cannot be written for want of space; what was committed stands."""


class TableLostError(StoreError):
    """A table without which the store is not whole, and which nothing here can make anew."""


class QueryError(StoreError):
    """A query that is not a single SELECT, or that DuckDB refuses."""
