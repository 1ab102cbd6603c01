"""The page about the schema says what the schema is."""

from __future__ import annotations

from pathlib import Path

from store.lake.schema_document import schema_document
from store.lake.tables import LAKE_TABLES


def test_the_page_is_current() -> None:
    """docs/schema.md is what the generator writes."""
    page = Path(__file__).parents[2] / "docs" / "schema.md"
    assert page.read_text(encoding="utf-8") == schema_document(), "run: python -m store.lake.schema_document"


def test_the_page_has_every_column_once() -> None:
    """Every table has its section and every column its line."""
    for section in schema_document().split("\n## ")[1:]:
        name, *lines = section.splitlines()
        columns = [line.split("`")[1] for line in lines if line.startswith("| `")]
        assert columns[: len(LAKE_TABLES[name])] == LAKE_TABLES[name].names
