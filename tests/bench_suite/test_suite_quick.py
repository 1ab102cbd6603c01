"""The quick suite is what its derivation gives."""

from __future__ import annotations

from importlib import resources

from bench_suite.quick import write


def test_quick_is_reproduced_by_its_derivation() -> None:
    """Deriving the cells from the trace again gives the shipped file, byte for byte."""
    shipped = (resources.files("configs") / "suites" / "quick.toml").read_text(encoding="utf-8")
    assert "".join(f"{line}\n" for line in write()) == shipped
