"""kill -9 at every durable step and at random moments: no published run is lost or doubled, every read is right."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from planted_findings import finding
from s3_server import serving_s3
from webhook_receiver import Receiver, receivers

from store.bundle.errors import BundleError
from store.bundle.inbox import Inbox
from store.bundle.reader import read_bundle
from store.bundle.writer import remove_stale_staging
from store.lake.lake import Lake
from store.lake.maintenance import verify

MakeBundle = Callable[..., Path]
REPOSITORY = Path(__file__).parents[2]
CHILD = Path(__file__).with_name("killed_child.py")
ROWS_A_RUN = 2


class Nursery:
    """The process that children are forked from."""

    def __init__(self) -> None:
        paths = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "tests" / "support")])
        self._process = subprocess.Popen(
            [sys.executable, str(CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": paths},
        )
        assert self._line() == "ready"

    def ends(self, jobs: Sequence[Mapping[str, Any]]) -> list[str | None]:
        """Runs the jobs side by side; for each where it died, or None where it came to its end."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(jobs) + "\n")
        self._process.stdin.flush()
        found = []
        for end in json.loads(self._line()):
            assert end["status"] in (0, -signal.SIGKILL), end
            words = end["said"].splitlines()
            found.append((words[-1] if words else "killed from outside") if end["status"] else None)
        return found

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        """Ends it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """One nursery for all tests."""
    found = Nursery()
    yield found
    found.close()


def job(work: str, target: str, point: int | str = 0, inside_s: float = 0.01, **more: Any) -> dict[str, Any]:
    """A job of the nursery."""
    return {"work": work, "target": target, "point": point, "inside_s": inside_s, **more}


def assert_reads_right(lake: Lake, pushed: set[str]) -> set[str]:
    """Every run that is seen is one that was pushed, whole and once; returns them."""
    seen = lake.sql("SELECT run_id, count(*) AS n FROM runs GROUP BY run_id").to_pylist()
    assert all(row["n"] == 1 for row in seen)
    runs = {row["run_id"] for row in seen}
    assert runs <= pushed
    for table in ("results", "samples"):
        counts = {r["run_id"]: r["n"] for r in lake.sql(COUNTS[table]).to_pylist()}
        assert counts == dict.fromkeys(runs, ROWS_A_RUN), table
    return runs


COUNTS = {
    "results": "SELECT run_id, count(*) AS n FROM results GROUP BY run_id",
    "samples": "SELECT run_id, count(*) AS n FROM samples GROUP BY run_id",
}


def test_a_publish_that_dies_leaves_nothing_or_all(tmp_path: Path, make_bundle: MakeBundle, nursery: Nursery) -> None:
    """After a kill at each step of a publish the final name is absent or a whole bundle, and the next publish works."""
    source = make_bundle("run-1")
    deaths = []
    for point in itertools.count(1, 2):
        folder = tmp_path / f"target-{point}"
        (words,) = nursery.ends([job("publish", f"{source}::{folder}", point)])
        published = list(folder.glob("[!.]*"))
        assert [read_bundle(path).run_id for path in published] == ["run-1"] * len(published)
        assert len(remove_stale_staging(folder)) == (0 if published else 1)
        if words is None:
            break
        deaths.append(words)
    assert len(deaths) >= 5


def ingest_under_fire(
    store_folder: Path, make_bundle: MakeBundle, kill: Callable[[int], str | None], rounds: int
) -> list[str]:
    """Pushes two runs a round, lets a mortal child ingest them, checks what readers see, then ingests for good."""
    lake, pushed, deaths = Lake.create(store_folder), set[str](), []
    for number in range(rounds):
        for run_id in (f"run-{number}-a", f"run-{number}-b"):
            lake.inbox.put(make_bundle(run_id, nights=number))
            pushed.add(run_id)
        words = kill(number)
        if words is not None:
            deaths.append(words)
        assert_reads_right(lake, pushed)
        lake.ingest()
        assert assert_reads_right(lake, pushed) == pushed
    assert verify(lake) == ()
    return deaths


def test_an_ingest_that_dies_at_any_step_loses_and_doubles_nothing(
    store_folder: Path, make_bundle: MakeBundle, nursery: Nursery
) -> None:
    """A seeded choice of the steps of an ingest; the log of kill points says where the process died."""
    points = random.Random(7).sample(range(1, 45), 6)
    deaths = ingest_under_fire(
        store_folder,
        make_bundle,
        lambda n: nursery.ends([job("ingest", str(store_folder), points[n])])[0],
        len(points),
    )
    assert any("_write" in words for words in deaths)


@pytest.mark.long
def test_an_ingest_that_dies_at_every_step_loses_and_doubles_nothing(
    store_folder: Path, make_bundle: MakeBundle, nursery: Nursery
) -> None:
    """Every step of an ingest, one after the other, until one comes through."""
    deaths = ingest_under_fire(
        store_folder, make_bundle, lambda n: nursery.ends([job("ingest", str(store_folder), n + 1)])[0], 60
    )
    assert sum("_write" in words for words in deaths) >= 10


def test_an_ingest_that_dies_at_random_moments_loses_and_doubles_nothing(
    store_folder: Path, make_bundle: MakeBundle, nursery: Nursery
) -> None:
    """Kills from outside after a random time, inside of commits too."""
    random_s = random.Random(11)

    def kill(_: int) -> str | None:
        mortal = job("ingest", str(store_folder), kill_after_s=random_s.uniform(0.0, 0.4))
        return nursery.ends([mortal])[0]

    ingest_under_fire(store_folder, make_bundle, kill, 4)


def test_two_ingesters_at_once_take_every_run_once(
    store_folder: Path, make_bundle: MakeBundle, nursery: Nursery
) -> None:
    """Two processes start on the same inbox; both end well, every run is in once."""
    lake = Lake.create(store_folder)
    pushed = {f"run-{number}" for number in range(12)}
    for run_id in sorted(pushed):
        lake.inbox.put(make_bundle(run_id))
    assert nursery.ends([job("ingest", str(store_folder))] * 2) == [None, None]
    assert assert_reads_right(lake, pushed) == pushed


def test_a_push_that_dies_leaves_nothing_or_all(store_folder: Path, make_bundle: MakeBundle, nursery: Nursery) -> None:
    """After a kill at each step of a push the inbox has no bundle or a whole one; pushing again completes it."""
    source = make_bundle("run-1")
    Lake.create(store_folder)
    for point in itertools.count(1, 2):
        (words,) = nursery.ends([job("push", f"{source}::{store_folder}", point)])
        inbox = Inbox(store_folder)
        for name in inbox.names():
            try:
                inbox.fetch(name, store_folder / f"looked-{point}")
            except BundleError as error:
                raise AssertionError(f"{words}: {error}") from error
        inbox.put(source)
        assert len(inbox.names()) == 1
        inbox.remove(inbox.names()[0])
        if words is None:
            break


@pytest.mark.parametrize("work", ["optimize", "vacuum"])
def test_maintenance_that_dies_changes_no_answer(
    work: str, store_folder: Path, make_bundle: MakeBundle, nursery: Nursery
) -> None:
    """After a kill within optimize or vacuum all rows are there once, and the work can be done again."""
    lake, pushed = Lake.create(store_folder), set[str]()
    for number in range(3):
        lake.inbox.put(make_bundle(f"run-{number}", nights=number))
        pushed.add(f"run-{number}")
        lake.ingest()
    for point in (2, 3, 5):
        (words,) = nursery.ends([job(work, str(store_folder), point)])
        assert assert_reads_right(lake, pushed) == pushed
        if words is None:
            break
    assert nursery.ends([job(work, str(store_folder))]) == [None]
    assert assert_reads_right(lake, pushed) == pushed
    assert verify(lake) == ()


KILLS = int(os.environ.get("KERNEL_OBSERVATORY_KILLS", "1000"))
SEEDS = (1, 2, 3, 4)
LOG = os.environ.get("KERNEL_OBSERVATORY_KILL_LOG")
"""Where the kill points are written to, `.<seed>.json` added, for whoever wants to keep them."""
DEADLY = {
    "ingest": ["inside _write", "inside _write", "inside remove", "after _write", "before _write", "inside compact"],
    "run": ["inside rename", "inside fsync", "after rename", "inside create"],
    "push": ["inside create", "after create"],
    "optimize": ["inside _write", "before _write", "after _write", "inside z_order", "inside compact"],
    "vacuum": ["inside vacuum", "after vacuum"],
    "notify": ["inside _write", "before _write", "after _write", "inside deliver", "after deliver"],
}
DURABLE = ("_write", "rename", "vacuum", "compact", "z_order")
"""Steps that are a commit, a rename or a vacuum."""


class Siege:
    """One store, and mortal processes that work on it in turn."""

    def __init__(
        self, lake: Lake, make_bundle: MakeBundle, folder: Path, told: Receiver, nursery: Nursery, seed: int
    ) -> None:
        self.lake = lake
        self.make_bundle = make_bundle
        self.spool = folder / "spool"
        self.spool.mkdir()
        self.told = told
        self.nursery = nursery
        self.routes = folder / "alerts.toml"
        self.routes.write_text(f'[[route]]\nname = "team"\nservice = "json"\nurl = "{told.url}"\n')
        self.choice = random.Random(seed)
        self.log: list[dict[str, str | int | None]] = []
        self.pushed: set[str] = set()
        self.planted: set[str] = set()

    def strike(self, number: int) -> None:
        """One mortal work, what readers see after it, and the work done again by one that lives."""
        work = self.choice.choice([*DEADLY, "ingest", "optimize"])
        source = self.make_bundle(f"run-{number}", nights=number % 250)
        store = self.lake.uri
        targets = {
            "run": f"{source}::{self.spool}::{store}",
            "push": f"{source}::{store}",
            "notify": f"{store}::{self.routes}",
        }
        if work not in ("run", "push"):
            self.lake.inbox.put(source)
        if work == "notify":
            finding(self.lake, number)
            self.planted.add(f"F-{number:04d}")
        self.pushed.add(f"run-{number}")
        point = f"{self.choice.choice(DEADLY[work])}#{self.choice.randint(1, 4)}"
        mortal = job(work, targets.get(work, store), point, self.choice.uniform(0.0, 0.02))
        (died,) = self.nursery.ends([mortal])
        self.log.append({"strike": number, "work": work, "point": point, "died": died})
        assert_reads_right(self.lake, self.pushed)
        if work in ("run", "push"):
            published = self.spool / source.name
            remove_stale_staging(self.spool)
            self.lake.inbox.put(published if work == "run" and published.exists() else source)
        self.lake.ingest()
        assert assert_reads_right(self.lake, self.pushed) == self.pushed
        if work == "notify":
            self.tell_and_check()

    def tell_and_check(self) -> None:
        """One sender that lives: every finding was heard, and what is recorded as sent is not sent again."""
        target = f"{self.lake.uri}::{self.routes}"
        assert self.nursery.ends([job("notify", target)]) == [None]
        assert set(self.told.ids()) >= self.planted
        heard = len(self.told.accepted)
        assert self.nursery.ends([job("notify", target)]) == [None]
        assert len(self.told.accepted) == heard

    def deaths(self) -> list[str]:
        """Where processes died."""
        return [str(entry["died"]) for entry in self.log if entry["died"] is not None]

    def summary(self) -> dict[str, Any]:
        """What a log of it says."""
        died = self.deaths()
        works = Counter(f"{entry['work']}: {entry['died']}" for entry in self.log if entry["died"])
        durable = [words for words in died if words in {f"killed inside {name}" for name in DURABLE}]
        repeats = len(self.told.ids()) - len(set(self.told.ids()))
        return {
            "kills": len(died),
            "inside a commit, a rename or a vacuum": len(durable),
            "runs pushed": len(self.pushed),
            "findings told": len(self.planted),
            "messages repeated": repeats,
            "by work and point": dict(sorted(works.items())),
            "log": self.log,
        }


def besiege(kills: int, lake: Lake, make_bundle: MakeBundle, folder: Path, nursery: Nursery, *, seed: int) -> None:
    """Strikes until so many have died; then everything is verified."""
    with receivers() as start:
        siege = Siege(lake, make_bundle, folder, start(lambda _: "ok"), nursery, seed)
        for number in itertools.count():
            if len(siege.deaths()) >= kills or number > 3 * kills:
                break
            siege.strike(number)
            if LOG:
                Path(f"{LOG}.{seed}.json").write_text(json.dumps(siege.summary(), indent=1) + "\n")
        summary = siege.summary()
    assert summary["kills"] >= kills
    assert summary["inside a commit, a rename or a vacuum"] >= 0.3 * kills
    assert verify(lake) == ()


def test_fifty_kills_lose_and_double_nothing(
    store_folder: Path, make_bundle: MakeBundle, tmp_path: Path, nursery: Nursery
) -> None:
    """Kills at random in every work of a store's life, a third of them inside a commit, a rename or a vacuum."""
    besiege(50, Lake.create(store_folder), make_bundle, tmp_path, nursery, seed=0)


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_thousand_kills_lose_and_double_nothing(
    store_folder: Path, make_bundle: MakeBundle, tmp_path: Path, nursery: Nursery, seed: int
) -> None:
    """The same a thousand times, over four stores."""
    besiege(KILLS // len(SEEDS), Lake.create(store_folder), make_bundle, tmp_path, nursery, seed=seed)


def fleet_pushes(root: str, make_bundle: MakeBundle, nursery: Nursery) -> None:
    """Forty-eight processes push, two ingest beside them until nothing waits: every bundle is in once."""
    lake = Lake.create(root)
    pushed = {f"run-{number}" for number in range(48)}
    nodes = [job("push", f"{make_bundle(run_id)}::{root}") for run_id in sorted(pushed)]
    hosts = [job("ingest", root)] * 2
    assert nursery.ends([*nodes[:24], *hosts, *nodes[24:]]) == [None] * 50
    assert assert_reads_right(lake, pushed) <= pushed
    assert nursery.ends(hosts) == [None, None]
    assert assert_reads_right(lake, pushed) == pushed
    assert lake.inbox.names() == []
    assert lake.sql("SELECT count(*) AS n, max(ingest_seq) AS seq FROM runs").to_pylist() == [{"n": 48, "seq": 48}]


def test_a_fleet_pushes_while_two_ingest(store_folder: Path, make_bundle: MakeBundle, nursery: Nursery) -> None:
    """On a folder: nothing is lost, nothing doubled, the sequence is dense."""
    fleet_pushes(str(store_folder), make_bundle, nursery)


def test_a_fleet_pushes_to_object_storage_while_two_ingest(make_bundle: MakeBundle, tmp_path: Path) -> None:
    """On a real S3 protocol server: nothing is lost, nothing doubled, the sequence is dense."""
    with serving_s3(tmp_path, "lab"):
        nursery = Nursery()  # of its own: credentials are in its environment
        fleet_pushes("s3://lab/fleet", make_bundle, nursery)
        nursery.close()
