"""What caused a change: by what differs, how far it reached, and what the code itself says."""

from __future__ import annotations

import pytest

from detection.classify import (
    Cause,
    CodeIdentity,
    Difference,
    FindingClass,
    alternatives,
    classify,
    field_class,
    reconsider,
)
from detection.verdict import Metric

REVISION = Difference(field="revision", good="aaa", bad="bbb")
DRIVER = Difference(field="driver", good="580", bad="590")
CODE = Cause(finding_class=FindingClass.CODE, sentence="1 of 5 operators moved; the code differs: revision aaa → bbb.")


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("revision", FindingClass.CODE),
        ("autotune", FindingClass.CODE),
        ("binary", FindingClass.CODE),
        ("driver", FindingClass.ENVIRONMENT),
        ("host_image", FindingClass.ENVIRONMENT),
        ("kernel", FindingClass.ENVIRONMENT),
        ("host", FindingClass.HOST),
        ("method_version", FindingClass.METHOD),
    ],
)
def test_a_field_speaks_for_a_class(field: str, expected: FindingClass) -> None:
    """The name of a differing field says which class it is evidence for; an unknown one is of the environment."""
    assert field_class(field) is expected
    assert field_class("something_new") is FindingClass.ENVIRONMENT


A, B, C = "a" * 64, "b" * 64, "c" * 64
HOST = Difference(field="host", good="n1", bad="n2")
PAIR, TIME, MEMORY, STATUS = Metric.LATENCY_RATIO, Metric.LATENCY, Metric.PEAK_MEMORY, Metric.STATUS
SAME = CodeIdentity(sources=A), CodeIdentity(sources=A)
SAME_BINARY = CodeIdentity(sources=A, binary=C), CodeIdentity(sources=B, binary=C)
COMPILED = CodeIdentity(sources=A, binary=B), CodeIdentity(sources=A, binary=C)
TUNED = CodeIdentity(sources=A, configuration="BLOCK_M 64"), CodeIdentity(sources=A, configuration="BLOCK_M 128")
UNKNOWN = CodeIdentity(), CodeIdentity(sources=B)


@pytest.mark.parametrize(
    ("identities", "differing", "metric", "expected", "words"),
    [
        # the code is known to be another, or not known: what was said stands
        ((CodeIdentity(sources=A), CodeIdentity(sources=B)), [REVISION], PAIR, FindingClass.CODE, CODE.sentence),
        (UNKNOWN, [REVISION], PAIR, FindingClass.CODE, CODE.sentence),
        # an autotuner's choice explains, whatever else differs
        (TUNED, [REVISION], PAIR, FindingClass.CODE, "The code is the same, but its autotuner chose differently"),
        (TUNED, [DRIVER], TIME, FindingClass.CODE, "BLOCK_M 64 → BLOCK_M 128"),
        # compiled to something else from the same sources
        (COMPILED, [REVISION], PAIR, FindingClass.CODE, "Its sources are the same, its machine code is not"),
        (COMPILED, [REVISION, DRIVER], PAIR, FindingClass.ENVIRONMENT, "driver 580 → 590 differs"),
        # the same code: a field that differs is to blame
        (SAME, [REVISION, DRIVER], PAIR, FindingClass.ENVIRONMENT, "differs; the sources are the same"),
        (SAME_BINARY, [REVISION, DRIVER], TIME, FindingClass.ENVIRONMENT, "machine code is the same (cccc"),
        (SAME, [REVISION, HOST], PAIR, FindingClass.HOST, "host n1 → n2 differs"),
        (SAME, [DRIVER, HOST], TIME, FindingClass.ENVIRONMENT, "driver"),
        # the same code, and nothing else differs: the pair says that it was not the host
        (SAME, [REVISION], PAIR, FindingClass.CODE, "revision aaa → bbb changed something outside of them, or"),
        (SAME, [], PAIR, FindingClass.ENVIRONMENT, "Not known: an environment variable"),
        (SAME_BINARY, [REVISION], PAIR, FindingClass.ENVIRONMENT, "in turn with it on the same device, did not move"),
        (SAME, [REVISION], MEMORY, FindingClass.CODE, "the host has no part in peak memory"),
        (SAME, [], MEMORY, FindingClass.ENVIRONMENT, "no recorded field of the environment differs"),
        # a time alone, or a failure, may be the host's
        (SAME, [REVISION], TIME, FindingClass.HOST, "a time alone may have the host in it"),
        (SAME_BINARY, [], TIME, FindingClass.HOST, "a time alone may have the host in it"),
        (SAME, [], STATUS, FindingClass.HOST, "a failure may have the host in it"),
    ],
)  # fmt: skip
def test_what_is_known_of_the_code_decides_the_class(
    identities: tuple[CodeIdentity, CodeIdentity],
    differing: list[Difference],
    metric: Metric,
    expected: FindingClass,
    words: str,
) -> None:
    """The table of docs/method-causes.md: tuner, binary, sources, then fields, then who else could have moved."""
    cause, fields = reconsider(CODE, differing, *identities, metric=metric)
    assert cause.finding_class is expected
    assert words in cause.sentence
    assert cause.sentence.endswith(".")
    assert fields[len(fields) - len(differing) :] == tuple(differing)


def test_what_of_the_code_differs_stands_in_front() -> None:
    """Tuner, binary and sources, each where it is known of both runs and not the same; hashes are cut."""
    good = CodeIdentity(sources=A, binary=B, configuration="x")
    bad = CodeIdentity(sources=B, binary=C, configuration="y")
    _, fields = reconsider(CODE, [REVISION], good, bad, metric=PAIR)
    assert [d.field for d in fields] == ["autotune", "binary", "source", "revision"]
    assert fields[2] == Difference(field="source", good=A[:12], bad=B[:12])
    assert reconsider(CODE, [REVISION], *UNKNOWN, metric=PAIR)[1] == (REVISION,)


def test_other_classes_are_left_alone() -> None:
    """A moved baseline or environment is not reconsidered by the candidate's code."""
    cause = Cause(finding_class=FindingClass.BASELINE, sentence="The optimized arm moved.")
    assert reconsider(cause, [DRIVER], *SAME, metric=PAIR) == (cause, (DRIVER,))


def test_alternatives_are_ranked_by_reach() -> None:
    """Where most operators moved the environment comes first, where few did the code; what is said is left out."""
    differing = [REVISION, DRIVER, Difference(field="host", good="a", bad="b")]
    none = Cause(finding_class=FindingClass.METHOD, sentence="")
    wide = alternatives(none, differing, moved=9, measured=10)
    narrow = alternatives(none, differing, moved=1, measured=10)
    assert [a.split(":")[0] for a in wide] == ["environment", "host", "code"]
    assert [a.split(":")[0] for a in narrow] == ["code", "host", "environment"]
    assert alternatives(CODE, [REVISION], moved=1, measured=5) == ()


def test_reach_and_fields_decide_the_class() -> None:
    """A revision alone is code; a driver beside it is environment where most operators moved, code where one did."""
    told = {
        moved: classify(
            [REVISION, DRIVER], denominator_moved=False, whole_run_moved=False, operators_moved=moved,
            operators_measured=5,
        ).finding_class
        for moved in (1, 5)
    }  # fmt: skip
    assert told == {1: FindingClass.CODE, 5: FindingClass.ENVIRONMENT}
