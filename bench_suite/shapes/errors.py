"""The one error of this package."""

from __future__ import annotations


class ShapeError(ValueError):
    """A trace, model or request that shapes cannot be derived from; the message says what, value, rule, way out."""
