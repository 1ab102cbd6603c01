"""Several routes at once through a storm of bad answers: every finding is told, in order, and nobody is hammered."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import random
import re
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from planted_findings import NIGHT, config_of, finding
from s3_server import serving_s3
from webhook_receiver import Receiver, receivers

from collector.host.notify.clock import FakeClock
from collector.host.notify.dispatch import FIRST_WAIT_S, LONGEST_WAIT_S
from collector.host.notify.outbox import delivery_id
from collector.host.notify.post import Patience
from collector.host.notify.routes import AlertConfig
from collector.host.notify.sender import NotifyReport, notify
from collector.host.notify.services.registry import SERVICES
from store.lake.lake import Lake

QUICK = Patience(connect_s=10.0, read_s=1.5, total_s=10.0)
YES = ("yes", "yes_unheard")
"""The service has it; after the second we cannot know."""
STORM = (*YES, "yes", "yes", "ok_false", "errcode", "400", "404", "429", "500", "hang", "close", "redirect")
RETRY_AFTER_S = 7.0
ALL = ("json", "dingtalk", "slack", "wecom", "feishu", "lark")


@pytest.fixture
def receiving() -> Iterator[Callable[..., Receiver]]:
    with receivers() as start:
        yield start


def config_for(receiver: Receiver, services: tuple[str, ...]) -> AlertConfig:
    """One route a service, named like it, on one receiver."""
    routes = [config_of(f"{receiver.url}/{name}", service=name, name=name).routes[0] for name in services]
    return replace(config_of(receiver.url), routes=tuple(routes))


@dataclass(frozen=True, kw_only=True)
class Request:
    """What one route's service saw."""

    ids: tuple[str, ...]
    key: str
    behaviour: str
    at: float


def requests_of(receiver: Receiver, service: str) -> list[Request]:
    """In the order in which they came."""
    rows = zip(receiver.paths, receiver.seen, receiver.headers, receiver.behaviours, receiver.moments, strict=True)
    return [
        Request(
            ids=tuple(dict.fromkeys(re.findall(r"F-\d{4}", json.dumps(body)))),
            key=headers["idempotency-key"],
            behaviour=behaviour,
            at=at,
        )
        for path, body, headers, behaviour, at in rows
        if path.endswith(f"/{service}")
    ]


def weather(lake: Lake, receiver: Receiver, services: tuple[str, ...], clock: FakeClock) -> NotifyReport:
    """Calls every ten minutes until nothing waits; with few tries in two days a message would be given up."""
    config = config_for(receiver, services)
    for _ in range(1200):
        report = notify(lake, config, clock=clock, post_patience=QUICK, patience_s=120)
        assert report.dead == 0
        if report.waiting == 0:
            return report
        clock.advance(600)
    raise AssertionError(report.lines)


def check_route(requests: list[Request], service: str, names: list[str]) -> None:
    """All told, in order, repeats with their id only, and waits that grow with every failure."""
    told = [name for request in requests if request.behaviour in YES for name in request.ids]
    assert list(dict.fromkeys(told)) == names
    keys: dict[str, tuple[str, ...]] = {}
    for request in requests:
        assert keys.setdefault(request.key, request.ids) == request.ids
    failed: dict[str, int] = {}
    done: set[str] = set()
    for before, request in zip([None, *requests], requests, strict=False):
        head = request.ids[0]
        assert not done & set(request.ids), "told again after a yes that was heard"
        if before is not None:
            waited = request.at - before.at
            assert waited >= SERVICES[service].pause_s - 1e-6
            tries = failed.get(head, 0)
            if tries and before.behaviour != "yes":
                assert waited >= min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** (tries - 1)) / 2 - 1e-6
            if before.behaviour == "429":
                assert waited >= RETRY_AFTER_S - 1e-6
        if request.behaviour == "yes":
            done |= set(request.ids)
        else:
            failed |= {name: failed.get(name, 0) + 1 for name in request.ids}


@pytest.mark.parametrize(
    ("seed", "count"), [(0, 4), (30, 11), *(pytest.param(s, 5 + s, marks=pytest.mark.long) for s in range(1, 11))]
)
def test_a_storm_costs_time_and_nothing_else(
    lake: Lake, receiving: Callable[..., Receiver], seed: int, count: int
) -> None:
    """Any sequence of 200, errors inside 200, 400, 404, 429, 500, hangs, cut connections and redirects elsewhere."""
    services = {0: ("json", "dingtalk"), 30: ("slack",)}.get(seed, ALL)
    choice, clock = random.Random(seed), FakeClock(at=NIGHT + timedelta(minutes=5))
    receiver, elsewhere = receiving(lambda _: choice.choice(STORM)), receiving()
    receiver.now, receiver.redirected_to = (lambda: clock.elapsed_s), elsewhere.url
    finding(lake, *range(1, count + 1))
    weather(lake, receiver, services, clock)
    assert elsewhere.seen == []
    for service in services:
        check_route(requests_of(receiver, service), service, [f"F-{n:04d}" for n in range(1, count + 1)])
    assert len(receiver.seen) < 20 * len(services) * count


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.create(tmp_path / "store")


def send(uri: str, url: str) -> None:
    """Child process: one ordinary call."""
    notify(Lake.open(uri), config_of(url), patience_s=30)


def kill_if_alive(victim: int) -> None:
    """A sender that was quicker has ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(victim, signal.SIGKILL)


@pytest.mark.long
@pytest.mark.parametrize("kills", [25])
def test_kills_at_any_moment_lose_nothing_and_repeat_only_under_the_same_id(
    lake: Lake, receiving: Callable[..., Receiver], kills: int
) -> None:
    """Senders that die with kill -9 while a service takes their message, at a random moment before or after its yes."""
    choice = random.Random(kills)
    child: list[multiprocessing.process.BaseProcess] = []

    def kill(number: int) -> str:
        victim = child[-1].pid
        if len(child) <= kills and victim is not None and number % 2 == 1:
            threading.Timer(choice.uniform(0.0, 0.03), kill_if_alive, (victim,)).start()
        return "ok"

    receiver = receiving(kill)
    names = [f"F-{n:04d}" for n in range(1, 9)]
    finding(lake, *range(1, 9), at=datetime.now(UTC))
    spawn = multiprocessing.get_context("spawn")
    for _ in range(kills + 1):
        child.append(spawn.Process(target=send, args=(lake.uri, receiver.url)))
        child[-1].start()
        child[-1].join(60)
        assert child[-1].exitcode in (0, -signal.SIGKILL)
    send(lake.uri, receiver.url)
    assert [c.exitcode for c in child].count(-signal.SIGKILL) >= 1
    assert list(dict.fromkeys(receiver.ids())) == names
    told = zip(receiver.seen, receiver.headers, strict=True)
    keys = {(body["messages"][0]["finding_id"], headers["idempotency-key"]) for body, headers in told}
    day = f"{datetime.now(UTC):%Y%m%d}"
    assert keys == {(name, delivery_id(f"{name}-confirmed-{day}", "team")) for name in names}


def test_two_senders_on_object_storage_tell_each_finding_once(
    receiving: Callable[..., Receiver], tmp_path: Path
) -> None:
    """The lease of a store on S3 makes one wait; a sender that died holding it delays, and loses nothing."""
    receiver = receiving()
    with serving_s3(tmp_path):
        lake = Lake.create("s3://lab/senders")
        finding(lake, *range(1, 5), at=datetime.now(UTC))
        reports: list[NotifyReport] = []

        def one() -> None:
            reports.append(notify(Lake.open("s3://lab/senders"), config_of(receiver.url), patience_s=30))

        threads = [threading.Thread(target=one) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(90)
        assert sorted(report.sent for report in reports) == [0, 4]
        assert receiver.ids() == [f"F-{n:04d}" for n in range(1, 5)]
