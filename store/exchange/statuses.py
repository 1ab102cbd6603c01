"""The words other tools have for how a case went, in the words of a row's status."""

from __future__ import annotations

import re
from dataclasses import dataclass

from store.bundle.schemas import FailureKind, InvalidReason, RowStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseStatus:
    """Status and kind of a row, and the words that the file had."""

    status: RowStatus
    kind: str | None
    words: str


_MEASURED = {"ok", "measured", "pass", "passed", "success", "succeeded", ""}
_FAILURES = {kind.value: kind for kind in FailureKind} | {
    "oom": FailureKind.OUT_OF_MEMORY,
    "timeout": FailureKind.TIMED_OUT,
    "crash": FailureKind.CRASHED,
    "error": FailureKind.CRASHED,
    "failed": FailureKind.CRASHED,
    "failure": FailureKind.CRASHED,
}
_INVALID = {reason.value: reason for reason in InvalidReason}
_INVALID_WORDS = {"invalid", "no_valid_samples"}


def case_status(text: str) -> CaseStatus | None:
    """The status for a word or `word:detail` (`failed: out_of_memory`, `no_valid_samples:throttled`), or None.

    An invalid or skipped row keeps whatever detail the file gave as its kind.
    """
    word, _, detail = text.strip().partition(":")
    word = re.sub(r"[\s-]+", "_", word.strip().lower())
    kind = re.sub(r"[\s-]+", "_", detail.strip().lower())
    if word in _MEASURED and not kind:
        return CaseStatus(status=RowStatus.MEASURED, kind=None, words=text)
    if word == "wrong":
        return CaseStatus(status=RowStatus.WRONG, kind=kind or None, words=text)
    if word == "skipped":
        return CaseStatus(status=RowStatus.SKIPPED, kind=kind or "unknown", words=text)
    if word in _INVALID_WORDS:
        return CaseStatus(status=RowStatus.INVALID, kind=kind or "unknown", words=text)
    if word in _INVALID and not kind:
        return CaseStatus(status=RowStatus.INVALID, kind=word, words=text)
    if word in ("failed", "failure", "error") and kind in _FAILURES:
        return CaseStatus(status=RowStatus.FAILED, kind=_FAILURES[kind].value, words=text)
    if word in _FAILURES:
        return CaseStatus(status=RowStatus.FAILED, kind=_FAILURES[word].value, words=text)
    return None
