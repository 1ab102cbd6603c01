"""What a run has done so far, on disk, so that it can be continued or published by a later process. Never both.

A folder for each unfinished run: `header.json` says what it is, `steps.jsonl` holds one line for each case that was
prepared or measured in a replicate, `telemetry-N.jsonl` what was read beside it. A line that a kill has cut is a step
that was not done. The folder is removed when the run is published; a bundle has the run's id, and a store takes an id
once.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from collector.node.crew import Outcome
from collector.node.protocol import Hello
from collector.node.readings import TimedReading
from collector.node.sentinel import Sentinel
from collector.node.telemetry import read_telemetry

FOLDER = "unfinished"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class RunHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What must be the same for two processes to be one run, and what a later one needs to publish it."""

    run_id: str
    started_at: datetime
    boot_id: str
    """Monotonic time, which joins samples and telemetry, begins anew with each boot."""
    suite: str
    suite_hash: str
    cases: list[str]
    replicates: int
    revision: str | None
    command: str
    note: str | None
    hello: Hello
    ceilings: str | None
    package: str
    destination: str
    """The store that it is for: a run of another one neither continues nor publishes it."""
    at_once: int = 1
    """Devices of the node that ran at the same time."""
    sentinel: Sentinel | None = None
    sentinel_share: float = 0.0

    def differs_from(self, other: RunHeader) -> str:
        """The first field in which a run that would go on differs from what it was; empty where none does."""
        for name in (
            "boot_id",
            "suite_hash",
            "cases",
            "replicates",
            "revision",
            "package",
            "at_once",
            "sentinel_share",
        ):
            if getattr(self, name) != getattr(other, name):
                return name.replace("_", " ")
        mine, others = self.hello, other.hello
        if mine.device != others.device:
            return "device"
        if mine.versions != others.versions:
            return "versions"
        kept, found = (s.fingerprint() if s else {} for s in (self.sentinel, other.sentinel))
        return "" if kept == found else "sentinel"


class JournalStep(msgspec.Struct, frozen=True, kw_only=True):
    """A case whose preparation (replicate None) or measurement came to its end."""

    case_id: str
    replicate: int | None
    outcomes: list[Outcome]
    sentinel: list[Outcome] = []
    """What the sentinel's processes said in the same step."""


def boot_id() -> str:
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class Journal:
    """The folder of one unfinished run."""

    folder: Path

    @classmethod
    def begin(cls, state: Path, header: RunHeader) -> Journal:
        """A new journal; it appears with its header or not at all."""
        parent = state / FOLDER
        staged = parent / f".{header.run_id}"
        staged.mkdir(parents=True)
        (staged / "header.json").write_bytes(msgspec.json.encode(header))
        return cls(staged.rename(parent / header.run_id))

    def header(self) -> RunHeader:
        """Raises msgspec.MsgspecError or OSError where it cannot be read."""
        return msgspec.json.decode((self.folder / "header.json").read_bytes(), type=RunHeader)

    def destination(self) -> str | None:
        """The store that the run is for; None where its header cannot be read."""
        try:
            return self.header().destination
        except (OSError, msgspec.MsgspecError):
            return None

    def add(
        self, case_id: str, replicate: int | None, outcomes: list[Outcome], sentinel: list[Outcome] | None = None
    ) -> None:
        """One line, whole when the next is written."""
        step = JournalStep(case_id=case_id, replicate=replicate, outcomes=outcomes, sentinel=sentinel or [])
        with (self.folder / "steps.jsonl").open("ab") as file:
            file.write(msgspec.json.encode(step) + b"\n")

    def steps(self) -> Iterator[JournalStep]:
        """All whole steps, in order. One cut short is dropped from the file, so that what is added stays readable."""
        path = self.folder / "steps.jsonl"
        data = path.read_bytes() if path.exists() else b""
        whole = data.rpartition(b"\n")[0]
        if len(whole) + 1 < len(data):
            path.write_bytes(whole + b"\n" if whole else b"")
        decoder = msgspec.json.Decoder(JournalStep)
        return (decoder.decode(line) for line in whole.splitlines())

    def ended_at(self) -> datetime:
        """When its last step was written; when it began, where there is none."""
        path = self.folder / "steps.jsonl"
        return datetime.fromtimestamp((path if path.exists() else self.folder / "header.json").stat().st_mtime, UTC)

    def telemetry_path(self) -> Path:
        """A file that no process of this run has used."""
        return self.folder / f"telemetry-{len(list(self.folder.glob('telemetry-*')))}.jsonl"

    def readings(self) -> list[TimedReading]:
        """What all processes of this run have read."""
        return [reading for path in sorted(self.folder.glob("telemetry-*")) for reading in read_telemetry(path)]

    def remove(self) -> None:
        """By a rename first: a half-removed folder is no journal."""
        gone = self.folder.with_name(f".{self.folder.name}")
        shutil.rmtree(gone, ignore_errors=True)
        self.folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def unfinished(state: Path, destination: str | None = None) -> list[Journal]:
    """Journals of runs for a store (None: all), the newest last, with those that cannot be read. Under the run's lock.

    Leftovers of beginnings and removals are cleared.
    """
    parent = state / FOLDER
    for staged in parent.glob(".*"):
        shutil.rmtree(staged, ignore_errors=True)
    found = [Journal(folder) for folder in sorted(parent.glob("*"))]
    return [journal for journal in found if destination is None or journal.destination() in (destination, None)]
