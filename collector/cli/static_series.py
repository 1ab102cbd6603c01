"""`collector suite static --store`: keep static metrics as series, and say exactly what changed since the last ones."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench_suite.static import StaticMetrics
    from detection.static_change import StaticChange

_LATEST = """
    SELECT case_id, device_model, static_registers, static_spills, static_shared_bytes, static_stack_bytes,
           static_instructions, static_matrix_instructions, static_binary_bytes, static_binary_sha256
    FROM results WHERE device_kind = 'static' AND static_binary_sha256 IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY case_id, device_model ORDER BY measured_at DESC) = 1
"""


def keep_static(found: Sequence[StaticMetrics], place: str) -> list[StaticChange]:
    """Put the metrics into the store, and what each is against the ones before; failed compilations are kept only."""
    from datetime import UTC, datetime

    from collector.cli.places import open_or_make
    from collector.node.folders import spool_folder
    from collector.node.publish import put
    from collector.node.static_rows import publish_static, static_row
    from detection.static_change import static_change

    lake = open_or_make(place)
    try:
        before: Mapping[tuple[str, str], Mapping[str, object]] = {
            (row["case_id"], row["device_model"]): row for row in lake.sql(_LATEST).to_pylist()
        }
        run_id, bundle = publish_static(found, spool_folder(), command=shlex.join(["collector", *sys.argv[1:]]))
        put(place, bundle)
        shutil.rmtree(bundle)
        lake.ingest()
    finally:
        lake.close()
    at = datetime.now(UTC)
    return [
        static_change(m.variant, m.chip, before.get((m.variant, m.chip)), static_row(m, run_id, at))
        for m in found
        if not m.failure
    ]


def change_lines(changes: Sequence[StaticChange]) -> list[str]:
    """One line a kernel and chip that is not the same binary, then the count."""
    from collector.cli.words import counted
    from detection.static_change import StaticVerdict

    told = [change.sentence for change in changes if change.verdict not in (StaticVerdict.UNCHANGED, StaticVerdict.NEW)]
    same = sum(change.verdict is StaticVerdict.UNCHANGED for change in changes)
    new = sum(change.verdict is StaticVerdict.NEW for change in changes)
    return [*told, f"{counted(len(changes), 'kernel')} kept: {same} the same as before, {len(told)} changed, {new} new"]
