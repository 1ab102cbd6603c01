"""The whole examination of a node, section by section."""

from __future__ import annotations

from collections.abc import Callable

from collector.node.doctor.device import ask_worker, ceiling_facts, device_facts, nvidia_facts, telemetry_facts
from collector.node.doctor.fact import Fact, Health
from collector.node.doctor.machine import machine
from collector.node.doctor.places import places
from collector.node.doctor.software import software


def examine(kind: str, index: int, store: str) -> list[Fact]:
    """All facts of this node; a section that fails is one fact that says so."""
    hello, why = ask_worker(kind, index)
    versions = hello.versions if hello else {}
    sections: dict[str, Callable[[], list[Fact]]] = {
        "device": lambda: [*device_facts(hello, why), *ceiling_facts(hello)],
        "nvidia": nvidia_facts,
        "telemetry": lambda: telemetry_facts(hello),
        "machine": machine,
        "software": lambda: software(versions),
        "places": lambda: places(store),
    }
    return [fact for name, section in sections.items() for fact in whole(name, section)]


def whole(name: str, section: Callable[[], list[Fact]]) -> list[Fact]:
    """The facts of a section, or the one fact that it could not be examined."""
    try:
        return section()
    except Exception as error:  # the doctor looks at broken machines; anything may raise anything
        words = f"{type(error).__name__}: {error}"
        return [Fact(section=name, name=name, value=None, health=Health.NOTE, words=words)]
