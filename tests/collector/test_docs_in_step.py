"""The documents say what the code does: each list that stands in both is held to be the same."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from urllib.parse import unquote

import pytest
import typer

from collector.cli.main import app
from collector.cli.reference import commands, reference
from collector.host.notify.services.registry import SERVICES
from detection.policy import Policy
from store.lake.tables import LAKE_TABLES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md")])
PACKAGES = ("bench_suite", "collector", "dashboard", "detection", "store")
WRITTEN_BY_THE_PROJECT = ("configs", "tests", "benchmarks", *PACKAGES)

_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)>\s]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_VARIABLE = re.compile(r"KERNEL_OBSERVATORY_[A-Z0-9_]*[A-Z0-9]")


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_the_command_reference_is_current() -> None:
    """docs/cli.md is what the generator writes."""
    assert page("cli.md") == reference(), "run: python -m collector.cli.reference > docs/cli.md"


def test_every_command_has_its_section_and_an_example() -> None:
    """Each command is a section of docs/cli.md, and its help shows how it is called."""
    sections = set(re.findall(r"^## (collector .+)$", page("cli.md"), re.MULTILINE))
    known = dict(commands(typer.main.get_command(app), "collector"))

    assert sections == set(known)
    assert [name for name, command in known.items() if name not in (command.help or "")] == []


def _keys(record: object, prefix: str = "") -> Iterator[str]:
    assert is_dataclass(record)
    for field in fields(record):
        value = getattr(record, field.name)
        if is_dataclass(value):
            yield from _keys(value, f"{field.name}.")
        else:
            yield f"{prefix}{field.name}"


def test_every_key_of_a_policy_is_explained() -> None:
    """The table of keys in docs/method-judging.md has every field of a policy, and none that is not one."""
    table = page("method-judging.md").partition("Every key of a policy")[2]
    explained = {key for row in re.findall(r"^\|([^|]*)\|", table, re.MULTILINE) for key in re.findall(r"`(.+?)`", row)}

    assert explained | {"name", "version"} == set(_keys(Policy()))


def test_the_default_policy_states_only_keys_that_are_explained() -> None:
    """Every key of configs/policies/default.toml is a field of a policy, so that the table has it."""
    content = tomllib.loads((ROOT / "configs" / "policies" / "default.toml").read_text(encoding="utf-8"))
    stated = {f"{name}.{key}" for name, table in content.items() if isinstance(table, dict) for key in table}

    assert stated <= set(_keys(Policy()))


def test_every_service_is_in_the_page_on_alerts() -> None:
    """Each service that a route may name is named in docs/alerts.md."""
    text = page("alerts.md")

    assert [name for name in SERVICES if f"`{name}`" not in text] == []


def test_every_table_is_in_the_schema() -> None:
    """Each table of the store has its section in docs/schema.md."""
    sections = set(re.findall(r"^## `?(\w+)`?", page("schema.md"), re.MULTILINE))

    assert set(LAKE_TABLES) <= sections


def test_every_variable_is_documented() -> None:
    """Each KERNEL_OBSERVATORY_ variable that the packages read stands in docs/operation.md, and no other."""
    sources = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    used = {name for path in sources for name in _VARIABLE.findall(path.read_text(encoding="utf-8"))}

    assert set(_VARIABLE.findall(page("operation.md"))) == used


@pytest.mark.parametrize("path", PAGES, ids=[str(path.relative_to(ROOT)) for path in PAGES])
def test_links_lead_somewhere(path: Path) -> None:
    """Every relative link of a page is a file or folder of the project, and every anchor a heading of its page."""
    text = _CODE.sub("", path.read_text(encoding="utf-8"))
    broken = []
    for link in _LINK.findall(text):
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue
        file, _, anchor = unquote(link).partition("#")
        target = (path.parent / file).resolve() if file else path
        if not target.exists() or not target.is_relative_to(ROOT) or (anchor and anchor not in _anchors(target)):
            broken.append(link)

    assert broken == []


def _anchors(path: Path) -> set[str]:
    """The anchors that a Markdown page has for its headings, as GitHub makes them."""
    found = set()
    for heading in re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", heading.lower())
        found.add(plain.strip().replace(" ", "-"))
    return found


def test_paths_in_the_pages_exist() -> None:
    """A file that a page names in code, as `detection/stats.py`, is there."""
    pattern = re.compile(rf"`((?:{'|'.join(WRITTEN_BY_THE_PROJECT)})/[\w./-]+\.(?:py|toml|md|csv))`")
    named = {name for path in PAGES if path.name != "CHANGELOG.md" for name in pattern.findall(path.read_text("utf-8"))}

    assert [name for name in sorted(named) if "NAME" not in name and not (ROOT / name).exists()] == []
