"""The sentinel: a frozen Python environment whose processes run beside the normal ones, on the same device and cases.

Only the toolchain differs between the two: the sentinel has its own interpreter with its own torch, triton and
compilers, and runs the source tree of this installation. So the ratio of the two, measured within minutes of each
other, does not see the device, the driver, the night or the code, and a change of the toolchain becomes a paired
comparison. What cannot run there is a row with its reason, never a failed night.
"""

from __future__ import annotations

import importlib.util
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench_suite.budget import ranks_of
from bench_suite.contract import Role
from bench_suite.plan import PlannedCase
from collector.node.crew import Crew, CrewError
from collector.node.devices.base import DeviceIdentity
from collector.node.folders import cache_folder
from collector.node.ledger import ArmRecord, CaseRecord, Fate
from collector.node.protocol import Arm, Hello, WorkerSetup
from store.bundle.schemas import RowStatus

PREFIX = "sentinel:"
"""Before the label of an arm as the sentinel runs it."""
LEFT_OUT = (Role.NAIVE, Role.AA, Role.PLANTED)
"""Arms that the sentinel does not run: nobody ships the textbook, and the copies audit the alarms."""
UNAVAILABLE = "sentinel_unavailable"
"""Kind of a row that says why the sentinel measured nothing."""
SOURCES = ("bench_suite", "collector", "configs", "detection", "store")
NOT_INHERITED = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "CC", "CXX")
"""Variables by which this environment would show through in the frozen one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentinel:
    """The frozen environment as a run found it."""

    python: str
    """Path of its interpreter."""
    hello: Hello | None = None
    refused: str = ""
    """Why it takes no part, in words; empty where it does."""

    def fingerprint(self) -> dict[str, str]:
        """What the run keeps of it: fields that begin with `sentinel.`."""
        facts = {"python_path": self.python}
        if self.refused:
            facts["refused"] = self.refused
        elif self.hello is not None:
            facts |= {name: text for name, text in self.hello.versions.items() if not name.startswith("cpu.")}
        return {f"sentinel.{name}": text for name, text in facts.items()}


def choose_cases(cases: Iterable[PlannedCase], share: float) -> frozenset[str]:
    """The case ids that the sentinel measures: this share of them, at least one, the same every night.

    The heaviest of each operator first, so that a small share still sees every operator. Cases of several ranks and
    those with nothing to do are left out.
    """
    alone = [c for c in cases if ranks_of(c) == 1 and all(size != 0 for _, size in c.case.axes)]
    alone.sort(key=lambda c: (-(c.weight or 0.0), c.case.case_id))
    turn: dict[str, int] = {}
    ranked = []
    for planned in alone:
        turn[planned.case.operator] = turn.get(planned.case.operator, 0) + 1
        ranked.append((turn[planned.case.operator], planned.case.case_id))
    ranked.sort(key=lambda place: place[0])
    return frozenset(case_id for _, case_id in ranked[: math.ceil(share * len(ranked))])


def frozen_record(planned: PlannedCase) -> CaseRecord:
    """The record of a case in the sentinel: the audits and the textbook are left out from the start."""
    fate = Fate(status=RowStatus.SKIPPED, kind="left_out", reason="the sentinel does not run it")
    arms = {role.value: Arm(label=role.value, role=role, implementation="") for role in LEFT_OUT}
    return CaseRecord(planned=planned, arms={label: ArmRecord(arm=arm, fate=fate) for label, arm in arms.items()})


def in_sentinel(record: CaseRecord) -> bool:
    """Whether the sentinel measures the case too, as far as is known."""
    return record.sentinel is not None and record.sentinel.skipped is None


def time_alike(record: CaseRecord) -> None:
    """Time the case in the sentinel as in the normal environment: replayed there, replayed here, or not at all."""
    other = record.sentinel
    if other is None:
        return
    other.replayed = record.replayed
    if record.replayed and other.no_replay:
        other.skip("not_comparable", f"the normal environment replays its calls, and here {other.no_replay}")


@contextmanager
def lost_where_it_fails(records: Iterable[CaseRecord], crew: Crew) -> Iterator[None]:
    """Where the sentinel's processes do not start any more the night goes on without them, and its rows say so."""
    try:
        yield
    except CrewError as error:
        crew.close()
        for record in records:
            if record.sentinel is not None:
                record.sentinel.skip(UNAVAILABLE, str(error))


def open_sentinel(
    python: str | None,
    identity: DeviceIdentity,
    *,
    threads: int,
    folder: Path,
    environment: Mapping[str, str],
) -> Sentinel | None:
    """Ask the interpreter for the device; None where none is kept. `environment`: of the normal workers."""
    if not python:
        return None
    path = str(Path(python).absolute())  # not resolved: an environment is known by the path of its own link
    if not os.access(path, os.X_OK) or Path(path).is_dir():
        return Sentinel(python=path, refused=f"{path} is no program that can be started; name a Python interpreter")
    if path == str(Path(sys.executable).absolute()):
        words = f"{path} is the Python that runs the normal processes; name one of an environment of its own"
        return Sentinel(python=path, refused=words)
    setup = WorkerSetup(
        device_kind=identity.kind,
        device_index=identity.index,
        threads=threads,
        candidates=[],
        memory_limit_bytes=None,
        frozen=True,
    )
    try:
        with sentinel_crew(path, setup, folder=folder, environment=environment) as crew:
            hello = crew.start()
    except (CrewError, OSError) as error:
        return Sentinel(python=path, refused=f"{path}: {error}")
    unit = hello.device.get("unit")
    if unit != identity.unit:
        return Sentinel(python=path, refused=f"{path}: it sees device {unit}, the normal processes {identity.unit}")
    return Sentinel(python=path, hello=msgspec.structs.replace(hello, pid=0))


def sentinel_crew(python: str, setup: WorkerSetup, *, folder: Path, environment: Mapping[str, str]) -> Crew:
    """Workers that the frozen interpreter runs, from the source tree of this installation."""
    source = linked_source(folder / "sentinel-source")
    return Crew(setup, folder=folder, environment=sentinel_variables(environment, python, source), python=python)


def sentinel_variables(environment: Mapping[str, str], python: str, source: Path) -> dict[str, str]:
    """The variables of the sentinel's workers: those of the normal ones, but its own programs, packages and caches."""
    variables = {name: text for name, text in environment.items() if name not in NOT_INHERITED}
    programs = str(Path(python).parent)
    variables["PATH"] = f"{programs}:{variables['PATH']}" if variables.get("PATH") else programs
    variables["PYTHONPATH"] = str(source)
    variables["PYTHONNOUSERSITE"] = "1"
    variables["TORCHINDUCTOR_CACHE_DIR"] = str(cache_folder() / "sentinel" / "inductor")
    variables["TRITON_CACHE_DIR"] = str(cache_folder() / "sentinel" / "triton")
    return variables


def linked_source(folder: Path) -> Path:
    """A folder with links to our packages and nothing else: beside an installed package lies its torch."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in SOURCES:
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.submodule_search_locations is not None
        link = folder / name
        if not link.is_symlink():
            link.symlink_to(Path(next(iter(spec.submodule_search_locations))).absolute())
    return folder
