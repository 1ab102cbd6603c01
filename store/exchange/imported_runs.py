"""Readings of a foreign file as runs: grouped, summarised from their raw values, written as bundles."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from store.bundle.inbox import Inbox
from store.bundle.schemas import RUNS, RunKind
from store.bundle.writer import BundleWriter
from store.exchange.errors import ImportRefused
from store.exchange.imported_case import OTHER_FAMILY, ImportedCase, ImportedDevice, device_family
from store.exchange.long_csv import LongCsv, Reading

DEFAULT_ARM = "candidate"
SUITE = "import"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What was written: the names in the inbox in order of time, and what was converted, in sentences."""

    names: tuple[str, ...]
    run_ids: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWords:
    """What the caller knows of the imported runs beyond the file."""

    source: str = ""
    arm: str = DEFAULT_ARM
    models: Mapping[str, str] = field(default_factory=dict)
    """Alias of a device -> the model name it stands for."""
    known_models: frozenset[str] = frozenset()
    """Names that devices report themselves, of which the product knows the peaks: the spelling to prefer."""


def import_runs(file: LongCsv, inbox: Inbox, words: RunWords | None = None) -> ImportReport:
    """Writes one bundle for each run and device and puts it into the inbox; all are checked before the first.

    Doing it again with the same file puts nothing new in: the bundles have the same content.

    Raises:
        ImportRefused: a run contradicts itself.
    """
    words, spelled = _one_spelling(file.readings, words or RunWords())
    runs = sorted(_runs(file.readings, words), key=lambda run: (run.first.started_at, run.run_id))
    for run in runs:
        run.check()
    names = []
    with tempfile.TemporaryDirectory(prefix="kernel-observatory-") as work:
        for run in runs:
            writer = BundleWriter(work, run.run_id)
            writer.add("runs", [run.run_row()])
            for table_name, rows in run.tables().items():
                writer.add(table_name, rows)
            names.append(inbox.put(writer.publish({"imported_from": words.source})))
    notes = (*file.notes, *spelled, *_unjudged(runs))
    return ImportReport(names=tuple(names), run_ids=tuple(run.run_id for run in runs), notes=notes)


def _unjudged(runs: Iterable[ImportedRun]) -> list[str]:
    """A note on each case without any number that is judged: its values are kept, and nobody will miss a verdict."""
    metrics: dict[str, dict[str, None]] = {}
    for run in runs:
        for case in run.cases():
            if not case.is_judged:
                metrics.setdefault(case.case, {}).update(dict.fromkeys(r.metric for r in case.readings))
    return [
        f"case {case!r}: {', '.join(map(repr, names))} kept but not judged; judged are latency, peak_memory, "
        "error_margin and any rate in FLOP/s or B/s"
        for case, names in metrics.items()
    ]


def _one_spelling(readings: Iterable[Reading], words: RunWords) -> tuple[RunWords, tuple[str, ...]]:
    """The words with a model for every spelling of one card of one host, and a note on each that was changed.

    A driver or a library renames a card; the card is the same where the host has one of that family at a time. The
    name that is kept is one that a device reports itself, else the first; two such names are two cards.
    """
    spellings: dict[tuple[str, str], list[str]] = {}
    at_once: dict[tuple[str, str, str], set[str]] = {}
    for reading in readings:
        family = device_family(reading.gpu)
        named = spellings.setdefault((reading.host, family), [])
        if reading.gpu not in named:
            named.append(reading.gpu)
        at_once.setdefault((reading.run_id, reading.host, family), set()).add(reading.gpu)
    several = {(host, family) for (_, host, family), names in at_once.items() if len(names) > 1}
    models, notes = dict(words.models), []
    for (host, family), names in spellings.items():
        if len(names) == 1 or (host, family) in several or len(words.known_models.intersection(names)) > 1:
            continue
        kept = next((n for n in names if n in words.known_models), names[0])
        kept = words.models.get(kept, kept)
        others = [n for n in names if models.setdefault(n, kept) == kept and n != kept]
        if others:
            notes.append(f"{host}: {', '.join(map(repr, others))} taken for {kept!r}, one card under several names")
    return replace(words, models=models), tuple(notes)


def _runs(readings: Iterable[Reading], words: RunWords) -> list[ImportedRun]:
    groups: dict[tuple[str, str, str], list[Reading]] = {}
    for reading in readings:
        groups.setdefault((reading.run_id, reading.host, reading.gpu), []).append(reading)
    hosts_of: dict[str, set[str]] = {}
    gpus_of: dict[tuple[str, str], set[str]] = {}
    for run_id, host, gpu in groups:
        hosts_of.setdefault(run_id, set()).add(host)
        gpus_of.setdefault((run_id, host), set()).add(gpu)
    many_gpus = {host for (_, host), gpus in gpus_of.items() if len(gpus) > 1}
    many_hosts = any(len(hosts) > 1 for hosts in hosts_of.values())
    found = []
    for (run_id, host, gpu), group in groups.items():
        unit = f"{host}:{gpu}" if host in many_gpus else host
        name = f"{run_id}@{unit}" if many_hosts or host in many_gpus else run_id
        found.append(ImportedRun(run_id=name, unit=unit, readings=tuple(group), words=words))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRun:
    """All readings of one run on one device."""

    run_id: str
    unit: str
    readings: tuple[Reading, ...]
    words: RunWords

    @property
    def first(self) -> Reading:
        """Any reading: what a run has once, all have."""
        return self.readings[0]

    @property
    def device(self) -> ImportedDevice:
        """The device it ran on; its model by its alias where one is known."""
        gpu = self.first.gpu
        return ImportedDevice(
            kind="cpu" if gpu.lower() == "cpu" else "imported",
            model=self.words.models.get(gpu, gpu),
            unit=self.unit,
            host=self.first.host,
        )

    def check(self) -> None:
        """Raises ImportRefused where lines of the run disagree on what a run has once."""
        for reading in self.readings:
            for name in ("started_at", "revision", "driver"):
                here, there = getattr(self.first, name), getattr(reading, name)
                if here != there:
                    raise ImportRefused(
                        f"line {reading.line}: {name} of run {self.run_id!r} is {there}, was {here} before"
                    )

    def run_row(self) -> dict[str, Any]:
        """The row of `runs`."""
        first = self.first
        environment = {"driver": first.driver} if first.driver else {}
        cases = sorted({reading.case for reading in self.readings})
        return dict.fromkeys(RUNS.names) | {
            "run_id": self.run_id,
            "kind": RunKind.IMPORT,
            "status": "complete",
            "started_at": first.started_at,
            "finished_at": first.started_at,
            "suite": SUITE,
            "replicates": 1,
            "revision": first.revision,
            "host": first.host,
            "device_kind": self.device.kind,
            "device_model": self.device.model,
            "device_unit": self.device.unit,
            "driver": first.driver,
            "environment": json.dumps(environment),
            "catalog": json.dumps({case: {"title": case, "shape": "", "family": OTHER_FAMILY} for case in cases}),
            "note": f"imported from {self.words.source}" if self.words.source else "imported",
        }

    def cases(self) -> list[ImportedCase]:
        """The readings by case, arm and settings."""
        groups: dict[tuple[str, str, str], list[Reading]] = {}
        for reading in self.readings:
            groups.setdefault((reading.case, reading.arm or self.words.arm, reading.settings), []).append(reading)
        return [
            ImportedCase(
                run_id=self.run_id,
                started_at=self.first.started_at,
                device=self.device,
                case=case,
                arm=arm,
                settings=settings,
                readings=tuple(readings),
            )
            for (case, arm, settings), readings in groups.items()
        ]

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Rows of `results`, `samples` and `telemetry`: a case and arm each; metrics nobody judges are telemetry."""
        results, samples, telemetry = [], [], []
        for imported in self.cases():
            results.append(imported.result_row())
            samples.extend(imported.sample_rows())
            telemetry.extend(imported.telemetry_rows())
        return {"results": results, "samples": samples, "telemetry": telemetry}
