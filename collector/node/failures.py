"""From what an arm raised to its row: the kind of failure and one line of words."""

from __future__ import annotations

import torch

from bench_suite.operators.base import Unsupported


class CandidateError(RuntimeError):
    """A user's candidate that cannot be loaded."""


class BrokenPromiseError(RuntimeError):
    """An implementation that does something its contract forbids; the message says what."""


def words(error: BaseException) -> str:
    """One line: the kind of error and its first line, without the paths of this machine."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    text = lines[0] if lines else ""
    if isinstance(error, Unsupported | BrokenPromiseError | CandidateError):
        return text
    return f"{type(error).__name__}: {text}"[:500] if text else type(error).__name__


_OUT_OF_MEMORY = ("can't allocate memory", "cannot allocate memory", "out of memory", "std::bad_alloc")


def failure_kind(error: BaseException, step: str) -> str:
    """The FailureKind of what an arm raised, or `wrong` for a broken promise."""
    text = str(error).lower()
    if isinstance(error, Unsupported):
        return "unsupported"
    if isinstance(error, BrokenPromiseError):
        return "wrong"
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or any(phrase in text for phrase in _OUT_OF_MEMORY):
        return "out_of_memory"
    module = type(error).__module__
    if isinstance(error, CandidateError) or module.startswith(("torch._dynamo", "torch._inductor", "triton.compiler")):
        return "compile_error"
    return "crashed"
