"""The outbox against a real HTTP server that answers as badly as servers do."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo

import pytest
from planted_findings import NIGHT, config_of, finding
from webhook_receiver import Receiver, receivers

from collector.host.findings_store import refresh_findings_state
from collector.host.notify.clock import FakeClock
from collector.host.notify.config import load_alerts
from collector.host.notify.dispatch import wait_s
from collector.host.notify.hours import parse_digest
from collector.host.notify.links import links_of
from collector.host.notify.message import Message, MessageKind, Severity
from collector.host.notify.outbox import Outbox
from collector.host.notify.post import Patience, judge
from collector.host.notify.routes import AlertConfig
from collector.host.notify.secrets import Reference, Secret
from collector.host.notify.sender import notify, send_test
from collector.host.notify.services.registry import SERVICES
from collector.host.notify.services.service import Answer, Outcome
from detection.act_links import read_link
from detection.classify import Difference, FindingClass
from detection.finding_rows import event_row
from detection.findings import EventKind, Evidence, Facts, Member, make_event
from detection.verdict import Metric
from store.lake.lake import Lake

QUICK = Patience(connect_s=10.0, read_s=10.0, total_s=20.0)


@pytest.fixture
def receiving() -> Iterator[Callable[..., Receiver]]:
    """Starts receivers and stops them."""
    with receivers() as start:
        yield start


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.create(tmp_path / "store")


def clock() -> FakeClock:
    return FakeClock(at=NIGHT + timedelta(minutes=5))


def test_a_confirmed_finding_is_told_once(lake: Lake, receiving: Callable[..., Receiver]) -> None:
    """The next call has nothing left to say."""
    receiver = receiving()
    finding(lake, 1)
    config = config_of(receiver.url)
    first = notify(lake, config, clock=clock())
    second = notify(lake, config, clock=clock())
    assert (first.queued, first.sent, first.waiting) == (1, 1, 0)
    assert (second.queued, second.sent, second.waiting) == (0, 0, 0)
    assert receiver.ids() == ["F-0001"]


def test_a_step_that_stays_goes_and_comes_back_is_three_messages(
    lake: Lake, receiving: Callable[..., Receiver]
) -> None:
    """Forty nights of the same finding tell it once, whenever one looks; its end and its return are told."""
    receiver = receiving()
    config = config_of(receiver.url)
    for night in (0, 1, 2, 6, 20, 39, 40, 41, 44):
        at = NIGHT + timedelta(days=night)
        event = {0: "confirmed", 40: "resolved", 44: "reopened"}.get(night)
        if event:
            finding(lake, 1, event=event, at=at)
        notify(lake, config, clock=FakeClock(at=at + timedelta(minutes=1)))
    kinds = [message["kind"] for body in receiver.accepted for message in body["messages"]]
    assert kinds == ["regressed", "recovered", "reopened"]


def test_a_failing_service_is_not_hammered(lake: Lake, receiving: Callable[..., Receiver]) -> None:
    """Within an hour of calls every minute a route with many messages makes few tries, ever further apart."""
    receiver = receiving(lambda _: "500")
    finding(lake, *range(1, 30))
    now = clock()
    tries: list[float] = []

    def fail(_: int) -> str:
        tries.append(now.elapsed_s)
        return "500"

    receiver.answer = fail
    notify(lake, config_of(receiver.url), clock=now, post_patience=QUICK, patience_s=3600)
    gaps = [right - left for left, right in pairwise(tries)]
    assert len(receiver.seen) <= 12
    assert gaps == sorted(gaps)


def test_retry_after_is_honoured(lake: Lake, receiving: Callable[..., Receiver]) -> None:
    """A service that asks for 7 s gets no request before."""
    receiver = receiving(lambda n: "429" if n == 0 else "ok")
    finding(lake, 1)
    now = clock()
    report = notify(lake, config_of(receiver.url), clock=now, patience_s=30)
    assert report.sent == 1 and sum(now.slept_s) >= 7
    assert len(receiver.seen) == 2


@pytest.mark.parametrize("asked", [None, 0.0, 5.0, 1e9])
def test_waits_grow_and_respect_what_was_asked(asked: float | None) -> None:
    """Between half of the doubled wait and all of it, never less than Retry-After, never beyond a day."""
    waits = [wait_s("id", attempt, asked) for attempt in range(1, 40)]
    assert all(wait >= min(asked or 0, 86400) for wait in waits) and max(waits) <= 86400
    assert wait_s("id", 1, None) <= 2 and 1800 <= wait_s("id", 39, None) <= 3600


def test_no_network_is_no_error_and_the_message_waits(lake: Lake, receiving: Callable[..., Receiver]) -> None:
    """Nobody listens: the call returns, says what waits, and a later call sends it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    finding(lake, 1)
    now = clock()
    report = notify(lake, config_of(f"http://127.0.0.1:{port}/hook/verysecretpath"), clock=now, post_patience=QUICK)
    assert report.waiting == 1 and report.sent == 0
    assert "ConnectError" in report.lines[0] and "verysecretpath" not in report.lines[0]
    now.advance(120)
    receiver = receiving()
    assert notify(lake, config_of(receiver.url), clock=now).sent == 1


def test_a_refused_message_becomes_a_dead_letter_and_the_rest_goes_on(
    lake: Lake, receiving: Callable[..., Receiver]
) -> None:
    """One poisoned message is given up after its tries, is visible, can be revived; the next ones are told."""
    receiver = receiving()
    receiver.answer = lambda n: "400" if poisoned.is_set() else "ok"
    poisoned = threading.Event()
    poisoned.set()
    finding(lake, 1, 2, 3)
    now = clock()
    config = config_of(receiver.url)
    report = notify(lake, config, clock=now, post_patience=QUICK, patience_s=2.1 * 86400)
    assert (report.dead, report.waiting) == (1, 2) and now.elapsed_s > 2 * 86400
    assert report.lines[0].startswith("team: gave up on F-0001 after ")
    poisoned.clear()
    now.advance(3700)
    assert notify(lake, config, clock=now, post_patience=QUICK).sent == 2
    assert receiver.ids() == ["F-0002", "F-0003"]
    outbox = Outbox(lake)
    dead = outbox.dead()
    assert [d.message.finding_id for d in dead] == ["F-0001"] and dead[0].response == "400 invalid_blocks"
    outbox.revive(dead, now.now())
    assert notify(lake, config_of(receiver.url), clock=now).sent == 1
    assert receiver.ids()[-1] == "F-0001" and outbox.dead() == []


def test_a_redirect_is_not_followed(lake: Lake, receiving: Callable[..., Receiver]) -> None:
    """The secret of a webhook travels to no other host."""
    other = receiving()
    receiver = receiving(lambda _: "redirect")
    receiver.redirected_to = other.url
    finding(lake, 1)
    report = notify(lake, config_of(receiver.url), clock=clock(), post_patience=QUICK, patience_s=1)
    assert other.seen == [] and report.waiting == 1
    assert "redirect" in report.lines[0]


def test_no_secret_is_written_or_logged(
    lake: Lake, receiving: Callable[..., Receiver], caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Neither the address nor the signing secret stands in a table, a log, a line or a repr, even when echoed."""
    receiver = receiving(lambda _: "echo_secret")
    finding(lake, 1)
    secret = Reference(source="env:SIGNING", secret=Secret("hush-hush-signing"))
    config = config_of(receiver.url, secret=secret)
    with caplog.at_level(logging.DEBUG):
        report = notify(lake, config, clock=clock(), post_patience=QUICK, patience_s=1)
    rows = lake.sql("SELECT * FROM deliveries").to_pylist()
    shown = json.dumps(rows, default=str) + caplog.text + repr(config) + str(report)
    assert "verysecretpath" not in shown and "T000" not in shown and "hush-hush" not in shown
    assert [row["response"][:13] for row in rows if row["event"] == "failed"] == ["403 forbidden"]


def test_half_of_an_echoed_secret_is_not_kept(receiving: Callable[..., Receiver]) -> None:
    """An answer that holds the address where our cut would fall through it is masked before it is cut."""
    room = 0
    receiver = receiving(lambda _: f"pad_{room}")
    (route,) = config_of(receiver.url).routes
    for room in (75, 85, 92, 100, 106, 112, 118, 135, 150):
        words = send_test(route, clock=clock()).words
        assert words.startswith("400 xxx") and "verys" not in words and "ervic" not in words, room


LINK_SECRET = "a secret of the host and its dashboard"


def test_links_that_act_are_signed_when_sent_and_kept_nowhere(lake: Lake, receiving: Callable[..., Receiver]) -> None:
    """They hold from the try that sends them; the lake and the words of an answer that echoes them hold no seal."""
    receiver = receiving(lambda n: "echo_body" if n == 0 else "ok")
    finding(lake, 1)
    config = replace(config_of(receiver.url), link_secret=Secret(LINK_SECRET))
    now = clock()
    notify(lake, config, clock=now, post_patience=QUICK, patience_s=0)
    now.advance(30 * 86400)
    assert notify(lake, config, clock=now).sent == 1
    addresses = receiver.accepted[0]["messages"][0]["links"]
    for name, act in (("acknowledge", "acknowledged"), ("snooze", "snoozed"), ("expected", "expected")):
        given = {key: value for key, (value,) in parse_qs(urlsplit(addresses[name]).query).items()}
        link = read_link(
            given["finding"], given["act"], given["ends"], given["seal"], secret=LINK_SECRET, now=now.now()
        )
        assert (link.finding_id, link.act) == ("F-0001", act)
        assert timedelta(days=13) < link.ends_at - now.now() <= timedelta(days=14)
    kept = json.dumps(lake.sql("SELECT * FROM deliveries").to_pylist(), default=str)
    seals = [urlsplit(body["messages"][0]["links"]["snooze"]).query.rpartition("seal=")[2] for body in receiver.seen]
    assert len(set(seals)) == 2 and not any(seal in kept for seal in seals) and "seal=****" in kept
    assert LINK_SECRET not in repr(config)


def test_generic_json_is_signed(lake: Lake, receiving: Callable[..., Receiver]) -> None:
    """A receiver that knows the secret can check body and time with three lines."""
    receiver = receiving()
    bodies: list[bytes] = []
    finding(lake, 1)
    notify(lake, config_of(receiver.url, secret=Reference(source="x", secret=Secret("s3cret"))), clock=clock())
    headers = receiver.headers[0]
    bodies.append(json.dumps(receiver.seen[0], ensure_ascii=False, separators=(",", ":")).encode())
    signed = b"v1:" + headers["x-kernel-observatory-timestamp"].encode() + b":" + bodies[0]
    expected = "v1=" + hmac.new(b"s3cret", signed, hashlib.sha256).hexdigest()
    assert headers["x-kernel-observatory-signature"] == expected


def test_many_findings_of_one_night_go_out_together(lake: Lake, receiving: Callable[..., Receiver]) -> None:
    """More than ten are told in a few payloads that hold every id."""
    receiver = receiving()
    finding(lake, *range(1, 121))
    report = notify(lake, config_of(receiver.url), clock=clock())
    assert report.sent == 120
    assert len(receiver.accepted) <= 13
    assert sorted(receiver.ids()) == [f"F-{n:04d}" for n in range(1, 121)]


def test_quiet_hours_hold_messages_and_end_in_one(lake: Lake, receiving: Callable[..., Receiver]) -> None:
    """What comes at night is told together in the morning."""
    receiver = receiving()
    environment = {"HOOK": receiver.url}
    path = Path(lake.uri) / "alerts.toml"
    path.write_text('[[route]]\nname = "team"\nurl = "env:HOOK"\nservice = "json"\nquiet = "22:00-07:00"\n')
    config = load_alerts(path, environment)
    finding(lake, 1, 2, 3)
    now = clock()
    assert notify(lake, config, clock=now).waiting == 3
    now.advance(2 * 3600)
    assert notify(lake, config, clock=now).waiting == 3
    now.advance(2 * 3600)
    assert notify(lake, config, clock=now).sent == 3
    assert len(receiver.accepted) == 1 and receiver.ids() == ["F-0001", "F-0002", "F-0003"]


def test_a_recovery_goes_only_where_the_finding_was_told(lake: Lake, receiving: Callable[..., Receiver]) -> None:
    """Nobody hears of the end of something that they never heard of; a threshold does not hide the end."""
    receiver = receiving()
    config = config_of(receiver.url, at_least=Severity.MEDIUM)
    finding(lake, 1, change=0.01)
    finding(lake, 2, change=0.10)
    notify(lake, config, clock=clock())
    finding(lake, 1, event="resolved", change=0.01)
    finding(lake, 2, event="resolved", change=0.10)
    notify(lake, config, clock=clock())
    assert receiver.ids() == ["F-0002", "F-0002"]


def test_snoozed_and_old_findings_are_not_told(lake: Lake, receiving: Callable[..., Receiver]) -> None:
    """A person's decision holds, and a new route does not get the history."""
    receiver = receiving()
    finding(lake, 1, state="snoozed")
    finding(lake, 2, state="expected")
    finding(lake, 3, at=NIGHT - timedelta(days=30))
    assert notify(lake, config_of(receiver.url), clock=clock()).queued == 0


def test_dry_run_says_and_does_nothing(lake: Lake, receiving: Callable[..., Receiver]) -> None:
    """It prints what would go where; tables and service stay untouched."""
    receiver = receiving()
    finding(lake, 1)
    report = notify(lake, config_of(receiver.url), clock=clock(), dry_run=True)
    assert report.lines == ("team <- medium regressed F-0001: GEMM 15.0\u00a0±\u00a01.0\u202f% slower on CPU (M 1)",)
    assert receiver.seen == [] and lake.sql("SELECT * FROM deliveries").num_rows == 0


def test_a_notice_is_told_once(lake: Lake, receiving: Callable[..., Receiver]) -> None:
    """A silent device is no finding; its message's own id keeps it from being repeated."""
    receiver = receiving()
    notice = Message(
        message_id="silent-node-1-20261130",
        finding_id="",
        kind=MessageKind.SILENT_DEVICE,
        severity=Severity.MEDIUM,
        at=NIGHT,
        title="node-1",
        sentence="node-1 has sent nothing for 26 h.",
    )
    for _ in range(3):
        notify(lake, config_of(receiver.url), notices=[notice], clock=clock())
    assert len(receiver.accepted) == 1


def test_a_removed_route_keeps_its_messages_and_says_so(lake: Lake, receiving: Callable[..., Receiver]) -> None:
    """Messages of a route that is no longer configured are counted as waiting, not dropped."""
    receiver = receiving(lambda _: "500")
    finding(lake, 1)
    notify(lake, config_of(receiver.url), clock=clock(), post_patience=QUICK, patience_s=1)
    report = notify(lake, AlertConfig(source="alerts.toml"), clock=clock())
    assert report.waiting == 1 and "routes that are not in alerts.toml" in report.lines[0]


def test_a_finding_that_grew_is_told_again_and_one_that_only_moved_is_not(
    lake: Lake, receiving: Callable[..., Receiver]
) -> None:
    """Half as much again is worth a second message; a new member among many is not."""
    receiver = receiving()
    config = config_of(receiver.url)
    finding(lake, 1, subject_ids=["a", "b", "c"])
    notify(lake, config, clock=clock())
    finding(lake, 1, event="moved", at=NIGHT + timedelta(seconds=1), subject_ids=["a", "b", "c", "d"])
    notify(lake, config, clock=clock())
    finding(lake, 1, event="moved", at=NIGHT + timedelta(days=1), subject_ids=list("abcdefg"))
    notify(lake, config, clock=FakeClock(at=NIGHT + timedelta(days=1)))
    kinds = [message["kind"] for body in receiver.accepted for message in body["messages"]]
    assert kinds == ["regressed", "escalated"]


def test_a_digest_route_gets_news_and_standing_once_a_day(lake: Lake, receiving: Callable[..., Receiver]) -> None:
    """At its time: what happened in one payload, how things stand in another; nothing in between, nothing twice."""
    receiver = receiving()
    config = config_of(receiver.url, digest=parse_digest("daily", "08:00", "monday", ZoneInfo("UTC")))
    finding(lake, 1, 2)
    for hour in (4, 7, 9, 10, 30, 31):
        notify(lake, config, clock=FakeClock(at=NIGHT.replace(hour=0) + timedelta(hours=hour)))
    told = [[message["kind"] for message in body["messages"]] for body in receiver.accepted]
    assert told == [["regressed", "regressed"], ["digest"]]
    assert "2 findings open; since yesterday 2 new, 0 back, 0 recovered" in str(receiver.accepted[1])
    notify(lake, config, clock=FakeClock(at=NIGHT.replace(hour=9) + timedelta(days=1)))
    assert len(receiver.accepted) == 3 and "0 new" in str(receiver.accepted[2])


def test_the_judges_own_findings_become_whole_messages(lake: Lake, receiving: Callable[..., Receiver]) -> None:
    """What detection and the judge write is what a message is built from: no field is lost between them."""
    receiver = receiving()
    member = Member(
        subject_id="s1",
        label="GEMM M 8",
        case_id="gemm[fp32,M=8,N=64,K=64]",
        arm="candidate",
        change=0.15,
        low=0.14,
        high=0.16,
        weight=0.1,
    )
    facts = Facts(
        group="CPU · gemm · candidate",
        finding_class=FindingClass.ENVIRONMENT,
        direction=1,
        metric=Metric.LATENCY_RATIO,
        operator="gemm",
        family="GEMM",
        title="GEMM",
        shape="M 8 · N 64 · K 64, fp32",
        case_id=member.case_id,
        arm="candidate",
        subject_id="s1",
        subject_ids=("s1", "s2"),
        device_model="CPU",
        device_unit="cpu-0",
        host="node-1",
        change=0.15,
        change_low=0.14,
        change_high=0.16,
        price=0.015,
        since_run_id="run-2",
        since_at=NIGHT,
        last_good_run_id="run-1",
        confirm_run_id="run-3",
        revision_good="aaa",
        revision_bad="bbb",
        differing=(Difference(field="triton", good="3.8", bad="3.9"), Difference(field="driver", good=None, bad="580")),
        cause="triton changed from 3.8 to 3.9.",
        sentence="GEMM is 15.0 % slower.",
        evidence=Evidence(
            baseline="the 30 runs before",
            confirm="5 fresh processes: 14.8 % slower",
            members=(member, replace(member, subject_id="s2", label="GEMM M 16", change=0.2)),
            co_movers=(replace(member, subject_id="s9", label="Softmax", change=0.05),),
            trend=(1.0, 1.01, 0.99, 1.15),
        ),
        repro="collector run --case x",
    )
    event = make_event(EventKind.CONFIRMED, facts, at=NIGHT, as_of_seq=7, run_id="run-3")
    silent = replace(
        facts, metric=Metric.SILENCE, group="cpu-0 · silent", title="cpu-0 is silent", change=None, price=None
    )
    gone = make_event(EventKind.CONFIRMED, silent, at=NIGHT, as_of_seq=7, run_id="run-3")
    lake.append("findings", [event_row(event), event_row(gone)])
    refresh_findings_state(lake, now=NIGHT)
    notify(lake, config_of(receiver.url), clock=clock())
    said, silence = (message for body in receiver.accepted for message in body["messages"])
    assert said["finding_id"] == event.finding_id and said["message_id"] == event.event_id
    assert [m["label"] for m in said["members"]] == ["GEMM M 16", "GEMM M 8"] and said["member_count"] == 2
    assert said["co_movers"][0]["label"] == "Softmax" and said["baseline"] == "the 30 runs before"
    assert said["differing"][0] == {"field": "triton", "good": "3.8", "bad": "3.9"}
    assert said["confirm"] == "5 fresh processes: 14.8 % slower (run run-3)" and len(said["trend"]) == 4
    assert said["severity"] == "high" and said["links"]["finding"].endswith(f"findings?finding={event.finding_id}")
    assert silence["kind"] == "silent_device" and silence["headline"] == "cpu-0 is silent"


def test_every_link_leads_to_a_page(lake: Lake) -> None:
    """The pages that messages link to are pages of the dashboard."""
    from dashboard.frame import VIEWS

    row = {"subject_id": "s", "since_run_id": "r", "last_good_run_id": "q", "device_unit": "u", "arm": "candidate"}
    links = links_of(row, "F-1", "https://observatory.example.com/base/")
    assert links.compare.endswith("/compare?device=u&of=candidate&by=run&a=q&b=r")
    by_revision = links_of(row | {"revision_good": "1", "revision_bad": "2"}, "F-1", "https://o.example.com").compare
    assert by_revision.endswith("&by=revision&a=1&b=2")
    pages = [urlsplit(url).path for url in (links.finding, links.series, links.compare, links.run)]
    assert {page.removeprefix("/base/") for page in pages} <= {view.path for view in VIEWS}


def test_a_set_aside_bundle_is_told_with_its_reason(lake: Lake, receiving: Callable[..., Receiver]) -> None:
    """A broken bundle in the inbox: ingest sets it aside, the next call tells it once."""
    lake.place.create("inbox/run-1.tar", b"no bundle at all")
    ((name, reason),) = lake.ingest().quarantined
    receiver = receiving()
    for _ in range(2):
        notify(lake, config_of(receiver.url))
    ((message,),) = [body["messages"] for body in receiver.accepted]
    assert message["kind"] == "quarantine" and name in message["title"] and reason in message["sentence"]


def test_a_test_message_goes_straight_to_its_route(receiving: Callable[..., Receiver]) -> None:
    """`collector notify test ROUTE`: past filters, quiet hours and outbox."""
    receiver = receiving()
    (route,) = config_of(receiver.url, at_least=Severity.HIGH).routes
    assert send_test(route, clock=clock()).outcome is Outcome.SENT
    assert receiver.accepted[0]["messages"][0]["kind"] == "test"


def test_apprise_delivers_what_we_have_no_service_for(lake: Lake, receiving: Callable[..., Receiver]) -> None:
    """Its XML plugin against the real server: a failure waits, the next try is told, the command stands in it."""
    receiver = receiving(lambda n: "500" if n == 0 else "ok")
    config = config_of(receiver.url.replace("http://", "xml://"), service="apprise")
    finding(lake, 1)
    now = clock()
    report = notify(lake, config, clock=now, patience_s=0)
    assert report.waiting == 1 and "apprise could not deliver" in report.lines[0]
    now.advance(60)
    assert notify(lake, config, clock=now).sent == 1
    assert "F-0001" in receiver.accepted[0]["raw"] and "15.0" in receiver.accepted[0]["raw"]


def test_errors_inside_a_yes_are_recognised() -> None:
    """HTTP 200 with an error inside is an error, and a rate limit among them may pass."""
    cases = [
        ("slack", "ok", Outcome.SENT),
        ("slack", '{"ok": true}', Outcome.SENT),
        ("slack", '{"ok": false, "error": "invalid_blocks"}', Outcome.REFUSED),
        ("slack", '{"ok": false, "error": "ratelimited"}', Outcome.PASSING),
        ("slack", "", Outcome.REFUSED),
        ("slack", "<html>sign in</html>", Outcome.REFUSED),
        ("mattermost", "ok", Outcome.SENT),
        ("mattermost", "<html>sign in</html>", Outcome.REFUSED),
        ("dingtalk", '{"errcode": 0, "errmsg": "ok"}', Outcome.SENT),
        ("dingtalk", '{"errcode": 310000, "errmsg": "sign not match"}', Outcome.REFUSED),
        ("dingtalk", '{"errcode": 130101, "errmsg": "send too fast"}', Outcome.PASSING),
        ("dingtalk", "", Outcome.REFUSED),
        ("wecom", '{"errcode": 0}', Outcome.SENT),
        ("wecom", '{"errcode": 93000, "errmsg": "invalid webhook url"}', Outcome.REFUSED),
        ("wecom", '{"errcode": 45009}', Outcome.PASSING),
        ("feishu", '{"code": 0, "msg": "success"}', Outcome.SENT),
        ("feishu", '{"StatusCode": 0, "StatusMessage": "success"}', Outcome.SENT),
        ("feishu", '{"code": 19021, "msg": "sign match fail"}', Outcome.REFUSED),
        ("lark", '{"code": 11232, "msg": "frequency limited"}', Outcome.PASSING),
        ("lark", "[]", Outcome.REFUSED),
        ("google_chat", '{"name": "spaces/x/messages/y"}', Outcome.SENT),
        ("google_chat", '{"error": {"message": "quota"}}', Outcome.REFUSED),
        ("teams", "1", Outcome.SENT),
        ("teams", "Webhook message delivery failed with error: Microsoft Teams endpoint returned 413", Outcome.REFUSED),
        ("discord", "", Outcome.SENT),
        ("json", "thanks", Outcome.SENT),
        ("json", '{"ok": false}', Outcome.REFUSED),
    ]
    for service, body, outcome in cases:
        answer = Answer(status=200, body=body, headers={})
        assert judge(SERVICES[service], answer, Secret("http://x/")).outcome is outcome, (service, body)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(503, Outcome.PASSING), (429, Outcome.PASSING), (408, Outcome.PASSING), (410, Outcome.REFUSED)],
)
def test_a_status_says_whether_waiting_helps(status: int, outcome: Outcome) -> None:
    """Busy and broken may pass; gone and forbidden will not."""
    answer = Answer(status=status, body="no", headers={})
    assert all(judge(service, answer, Secret("http://x/")).outcome is outcome for service in SERVICES.values())


def test_retry_after_may_be_a_date_or_stand_in_the_body() -> None:
    """RFC 9110 allows both forms of the header; Discord writes seconds into its body; nonsense is no wait."""

    def wait(headers: dict[str, str], body: str = "") -> float | None:
        return judge(SERVICES["discord"], Answer(status=429, body=body, headers=headers), Secret("http://x/")).wait_s

    assert wait({"retry-after": "30"}) == 30
    assert wait({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0
    assert (wait({"retry-after": "Fri, 21 Oct 2095 07:28:00 GMT"}) or 0) > 0
    assert wait({}, '{"retry_after": 1.5}') == 1.5
    assert wait({"retry-after": "soon"}) is None


def test_signatures_are_those_of_the_services() -> None:
    """DingTalk and Feishu: recomputed by the recipe of their documentation, not by our function."""
    secret, at = Secret("SECabc"), NIGHT
    ding = SERVICES["dingtalk"].sign(
        {"a": 1}, Secret("https://oapi.dingtalk.com/robot/send?access_token=t"), secret, at
    )
    query = parse_qs(urlsplit(ding.url.reveal()).query)
    stamp = query["timestamp"][0]
    digest = hmac.new(b"SECabc", f"{stamp}\nSECabc".encode(), hashlib.sha256).digest()
    assert stamp == str(int(at.timestamp()) * 1000) and query["sign"] == [base64.b64encode(digest).decode()]
    body = json.loads(SERVICES["feishu"].sign({"a": 1}, Secret("https://open.feishu.cn/x"), secret, at).body)
    digest = hmac.new(f"{body['timestamp']}\nSECabc".encode(), b"", hashlib.sha256).digest()
    assert body["sign"] == base64.b64encode(digest).decode() and body["a"] == 1


def send_and_die(uri: str, url: str) -> None:
    """Child process: is killed after the service said yes, before that is recorded."""
    from collector.host.notify import outbox

    def killed(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    outbox.Outbox.record = killed  # type: ignore[method-assign]
    notify(Lake.open(uri), config_of(url))


def send(uri: str, url: str) -> None:
    """Child process: one ordinary call."""
    notify(Lake.open(uri), config_of(url), patience_s=30)


def test_kill_between_send_and_record_repeats_with_the_same_id(lake: Lake, receiving: Callable[..., Receiver]) -> None:
    """kill -9 after the service's yes: the next sender gets the lease at once and tells it again under the same id."""
    receiver = receiving()
    finding(lake, 1, 2, at=datetime.now(UTC))
    spawn = multiprocessing.get_context("spawn")
    child = spawn.Process(target=send_and_die, args=(lake.uri, receiver.url))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    assert notify(lake, config_of(receiver.url)).sent == 2
    assert receiver.ids() == ["F-0001", "F-0001", "F-0002"]
    assert receiver.headers[0]["idempotency-key"] == receiver.headers[1]["idempotency-key"]


def test_two_senders_at_once_tell_each_finding_once(lake: Lake, receiving: Callable[..., Receiver]) -> None:
    """The lease makes one of them wait; nothing is told twice."""
    receiver = receiving()
    finding(lake, *range(1, 9), at=datetime.now(UTC))
    spawn = multiprocessing.get_context("spawn")
    children = [spawn.Process(target=send, args=(lake.uri, receiver.url)) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join(90)
    assert [child.exitcode for child in children] == [0, 0]
    assert receiver.ids() == [f"F-{n:04d}" for n in range(1, 9)]
