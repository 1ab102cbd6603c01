"""Opens a recorded file, plain or gzip, and recognises its format."""

from __future__ import annotations

import gzip
import hashlib
from enum import StrEnum
from pathlib import Path

from bench_suite.shapes.errors import ShapeError
from bench_suite.shapes.importers import execution_trace, input_log, kineto, nccl_log
from bench_suite.shapes.importers.recording import Recording

_GZIP = b"\x1f\x8b"


class Format(StrEnum):
    KINETO = "kineto"
    EXECUTION_TRACE = "execution_trace"
    NCCL_LOG = "nccl_log"
    INPUT_LOG = "input_log"


def import_shapes(
    path: Path, format_name: str | None = None, *, ranks: int | None = None, partial: bool = False
) -> Recording:
    """The shapes that a file recorded, its format recognised unless named.

    `ranks`: group size of collectives where the file has none. `partial`: take what there is although some operators
    have no sizes. Raises ShapeError with the path for anything else.
    """
    known = [member.value for member in Format]
    if format_name is not None and format_name not in known:
        raise ShapeError(f"format {format_name!r}: must be one of {', '.join(known)}")
    try:
        content = path.read_bytes()
        sha256 = hashlib.sha256(content).hexdigest()
        if content.startswith(_GZIP):
            content = gzip.decompress(content)
    except (OSError, EOFError) as error:
        raise ShapeError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    chosen = Format(format_name) if format_name is not None else _recognise(path, content)
    try:
        if chosen is Format.KINETO:
            return kineto.read(content, sha256, ranks=ranks, partial=partial)
        if chosen is Format.EXECUTION_TRACE:
            return execution_trace.read(content, sha256, ranks=ranks)
        return nccl_log.read(content, sha256) if chosen is Format.NCCL_LOG else input_log.read(content, sha256)
    except ShapeError as error:
        raise ShapeError(f"{path}: {error}") from None


def _recognise(path: Path, content: bytes) -> Format:
    if content.lstrip()[:1] == b"{":
        if b'"traceEvents"' in content:
            return Format.KINETO
        if b'"nodes"' in content and b'"schema"' in content:
            return Format.EXECUTION_TRACE
    if b"opCount" in content:
        return Format.NCCL_LOG
    if content.lstrip().startswith(b"Operator: "):
        return Format.INPUT_LOG
    raise ShapeError(f"{path}: format not recognised, must be one of {', '.join(member.value for member in Format)}")
