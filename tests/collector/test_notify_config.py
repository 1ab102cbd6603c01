"""alerts.toml is read strictly, its errors are one line, and no secret shows."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time
from importlib.resources import files
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from collector.host.notify.config import RouteKeys, TeamKeys, load_alerts
from collector.host.notify.errors import AlertConfigError
from collector.host.notify.hours import QuietHours, parse_digest, parse_window
from collector.host.notify.message import MessageKind, Severity
from collector.host.notify.secrets import Secret, mask
from collector.host.notify.services.registry import SERVICES

ROUTE = '[[route]]\nname = "team"\n'
HOOK = "https://hooks.slack.com/services/T01/B02/abcdefSECRET"
SAMPLE = files("configs") / "alerts.toml"


def read(tmp_path: Path, text: str, **environment: str) -> object:
    path = tmp_path / "alerts.toml"
    path.write_text(text, encoding="utf-8")
    return load_alerts(path, environment)


def test_the_shipped_file_sends_nothing() -> None:
    """As shipped every line is a comment."""
    assert load_alerts(Path(str(SAMPLE)), {}).routes == ()


def test_the_shipped_file_is_valid_when_uncommented(tmp_path: Path) -> None:
    """Each example in it can be used as it stands, and it shows every key that there is."""
    text = re.sub(r"(?m)^# (?=\[\[|[a-z_]+ = )", "", SAMPLE.read_text())
    secret = tmp_path / "url"
    secret.write_text(f"{HOOK}\n")
    text = text.replace("/run/secrets/alerts_url", str(secret))
    path = tmp_path / "alerts.toml"
    path.write_text(text)
    config = load_alerts(path, {"SLACK_WEBHOOK_URL": HOOK, "ALERTS_SIGNING_SECRET": "s"})
    assert [route.name for route in config.routes] == ["kernels", "on-call"]
    second = config.routes[1]
    assert second.at_least is Severity.MEDIUM and second.price_at_least == 0.001
    assert second.mute_until == datetime(2026, 12, 27, 7, 0, tzinfo=UTC)
    assert MessageKind.REGRESSED in second.kinds and second.quiet and second.digest
    assert all(
        re.search(rf"(?m)^{key} = ", text) for key in (*RouteKeys.__struct_fields__, *TeamKeys.__struct_fields__)
    )


def test_every_key_is_in_the_docs() -> None:
    """docs/alerts.md names each key and each kind."""
    docs = (Path(__file__).parents[2] / "docs" / "alerts.md").read_text()
    kinds = [kind for kind in MessageKind if kind is not MessageKind.TEST]
    for word in (*RouteKeys.__struct_fields__, *TeamKeys.__struct_fields__, "base_url", "timezone", *kinds, *SERVICES):
        assert f"`{word}`" in docs, word


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ROUTE + 'url = "ftp://host/x"\n', "route 'team': url: webhook scheme 'ftp': unknown, must be http"),
        (
            ROUTE + 'url = "carrier+https://host/x"\n',
            "webhook scheme carrier+: no such service, must be one of",
        ),
        (ROUTE + 'url = "apprise+nosuch://x"\n', "apprise address nosuch://****: apprise knows no such address"),
        (ROUTE + 'url = "apprise+dingtalk://token"\n', "is spoken natively; use service = 'dingtalk'"),
        (ROUTE + 'url = "http:///x"\n', "has no host"),
        (ROUTE + 'url = "https://host/a b"\n', "a space or a control character"),
        (ROUTE + 'url = "env:NOT_SET"\n', "environment variable NOT_SET is not set"),
        (ROUTE + 'url = "file:/nowhere/secret"\n', "file:/nowhere/secret: the file cannot be read"),
        (ROUTE + 'url = "https://h/x"\nchanel = "#x"\n', "unknown key `chanel`"),
        (ROUTE + 'url = "https://h/x"\noperators = "gemm"\n', "Expected `array`, got `str` - at `$.operators`"),
        (ROUTE + 'url = "https://h/x"\nservice = "pager"\n', "service is 'pager', must be one of"),
        (ROUTE + 'url = "https://h/x"\nat_least = "grave"\n', "at_least is 'grave', must be one of low, medium, high"),
        (ROUTE + 'url = "https://h/x"\nkinds = ["slower"]\n', "kinds is 'slower', must be one of regressed"),
        (ROUTE + 'url = "https://h/x"\nquiet = "25:00-07:00"\n', "quiet is '25:00-07:00', must be two times"),
        (ROUTE + 'url = "https://h/x"\ndigest = "hourly"\n', 'digest is \'hourly\', must be "daily" or "weekly"'),
        (ROUTE + 'url = "https://h/x"\nprice_at_least = 5.0\n', "price_at_least is 5.0, must be a share"),
        (ROUTE + 'url = "https://h/x"\nteams = ["ghosts"]\n', "team 'ghosts' has no [[team]]"),
        (ROUTE + 'url = "https://hooks.slack.com/x"\nsecret = "env:S"\n', "secret has no meaning for slack"),
        (ROUTE + 'url = "https://h/x"\n' + ROUTE + 'url = "https://h/y"\n', "the name stands twice"),
        ('[[route]]\nurl = "https://h/x"\n', "route number 1: missing required field `name`"),
        ('[[route]]\nname = "a b"\nurl = "https://h/x"\n', "name must be 1 to 64"),
        ("timezone = 'Mars/Olympus'\n", "timezone is 'Mars/Olympus'"),
        ("base_url = 'observatory'\n", "base_url is 'observatory', must be an http(s) address"),
        ("webhooks = 1\n", "unknown key `webhooks`"),
        ("route = \n", "is not TOML"),
    ],
)
def test_a_mistake_is_one_line_that_names_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    """What, value, rule, way out; never the secret part of an address."""
    with pytest.raises(AlertConfigError) as raised:
        read(tmp_path, text, S="secret")
    message = str(raised.value)
    assert said in message and "alerts.toml" in message and "\n" not in message


def test_a_bad_literal_address_does_not_leak(tmp_path: Path) -> None:
    """An address with a typing error is a secret all the same."""
    with pytest.raises(AlertConfigError) as raised:
        read(tmp_path, ROUTE + f'url = "{HOOK.replace("https", "htps")}"\n')
    assert "SECRET" not in str(raised.value)


def test_one_variable_makes_a_route(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """$KERNEL_OBSERVATORY_WEBHOOK needs no file; the service comes from its prefix or its host."""
    monkeypatch.chdir(tmp_path)

    def service(url: str) -> str:
        return load_alerts(None, {"KERNEL_OBSERVATORY_WEBHOOK": url}).routes[0].service_name

    assert service(HOOK) == "slack"
    assert service("slack+http://127.0.0.1:9/x") == "slack"
    assert service("json+http://127.0.0.1:9/x") == "json"
    assert service("http://127.0.0.1:9/x") == "json"
    with pytest.raises(AlertConfigError, match=r"\$KERNEL_OBSERVATORY_WEBHOOK: webhook scheme 'gopher'"):
        service("gopher://x")


def test_the_file_is_found_where_it_is_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named, then $KERNEL_OBSERVATORY_ALERTS, then ./alerts.toml; none of them is no error."""
    monkeypatch.chdir(tmp_path)
    assert load_alerts(None, {}).routes == ()
    (tmp_path / "alerts.toml").write_text(ROUTE + 'url = "https://h/x"\n')
    (tmp_path / "other.toml").write_text("")
    assert len(load_alerts(None, {}).routes) == 1
    assert load_alerts(None, {"KERNEL_OBSERVATORY_ALERTS": "other.toml"}).routes == ()
    with pytest.raises(AlertConfigError, match=r"missing\.toml: cannot be read"):
        load_alerts(Path("missing.toml"), {})


def test_no_repr_shows_a_secret(tmp_path: Path) -> None:
    """A config may be printed, logged or sent to us."""
    config = read(tmp_path, ROUTE + f'url = "{HOOK}"\n')
    assert "SECRET" not in f"{config!r} {config} {Secret('x' * 9)!r}"
    assert (
        load_alerts(tmp_path / "alerts.toml", {}).routes[0].describe() == "team: Slack at https://hooks.slack.com/****"
    )


def test_the_secret_of_links_comes_from_a_variable_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows in no repr; one that is too short or a file that is not there is one line without its value."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_text("sixteen characters at least\n")

    def given(text: str) -> Secret | None:
        config = load_alerts(None, {"KERNEL_OBSERVATORY_LINK_SECRET": text})
        assert "sixteen" not in repr(config)
        return config.link_secret

    assert given("") is None
    assert given("sixteen characters at least") is not None
    assert given(f"file:{tmp_path / 'secret'}") == given("sixteen characters at least")
    for text, said in (("short-one", "too short"), ("file:/nowhere/secret", "cannot be read")):
        with pytest.raises(AlertConfigError, match=said) as raised:
            given(text)
        assert "$KERNEL_OBSERVATORY_LINK_SECRET" in str(raised.value) and "short-one" not in str(raised.value)


def test_masking_takes_the_telling_parts_out() -> None:
    """The whole address, its path and its parts go; words that happen to be short stay."""
    text = f"POST {HOOK} failed for /services/T01/B02/abcdefSECRET (abcdefSECRET)"
    assert mask(text, [Secret(HOOK), None]) == "POST **** failed for /**** (****)"


def test_quiet_hours_cross_midnight() -> None:
    """In local time, to the minute."""
    quiet = parse_window("22:00-07:00", ZoneInfo("Europe/Berlin"))
    assert quiet == QuietHours(start=time(22), end=time(7), zone=ZoneInfo("Europe/Berlin"))
    assert quiet.ends_at(datetime(2026, 11, 30, 20, 59, tzinfo=UTC)) is None
    assert quiet.ends_at(datetime(2026, 11, 30, 21, 0, tzinfo=UTC)) == datetime(2026, 12, 1, 6, 0, tzinfo=UTC)
    assert quiet.ends_at(datetime(2026, 12, 1, 5, 59, tzinfo=UTC)) == datetime(2026, 12, 1, 6, 0, tzinfo=UTC)
    assert quiet.ends_at(datetime(2026, 12, 1, 6, 0, tzinfo=UTC)) is None


def test_a_digest_comes_at_its_time() -> None:
    """Daily at the hour, weekly on the day; always after now, across a change of summer time too."""
    zone = ZoneInfo("Europe/Berlin")
    daily = parse_digest("daily", "08:00", "monday", zone)
    assert daily.next_after(datetime(2026, 10, 24, 6, 0, tzinfo=UTC)) == datetime(2026, 10, 25, 7, 0, tzinfo=UTC)
    weekly = parse_digest("weekly", "08:00", "Friday", zone)
    assert weekly.next_after(datetime(2026, 11, 27, 7, 0, tzinfo=UTC)) == datetime(2026, 12, 4, 7, 0, tzinfo=UTC)
