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
        ("host", FindingClass.HOST),
        ("method_version", FindingClass.METHOD),
    ],
)
def test_a_field_speaks_for_a_class(field: str, expected: FindingClass) -> None:
    """The name of a differing field says which class it is evidence for; an unknown one is of the environment."""
    assert field_class(field) is expected
    assert field_class("something_new") is FindingClass.ENVIRONMENT


def test_equal_code_is_never_the_class_code() -> None:
    """With an equal hash the driver is to blame where it differs, else the host; the veto is said."""
    same = CodeIdentity(code="f00d" * 16)
    blamed, _ = reconsider(CODE, [REVISION, DRIVER], same, same)
    assert blamed.finding_class is FindingClass.ENVIRONMENT
    assert "driver 580 → 590" in blamed.sentence
    assert "the code is the same" in blamed.sentence
    alone, _ = reconsider(CODE, [REVISION], same, same)
    assert alone.finding_class is FindingClass.HOST


def test_another_hash_or_none_changes_nothing() -> None:
    """A hash that differs is one more differing field; one that is not known is no evidence."""
    cause, fields = reconsider(CODE, [REVISION], CodeIdentity(code="a" * 64), CodeIdentity(code="b" * 64))
    assert (cause, [d.field for d in fields]) == (CODE, ["binary", "revision"])
    assert reconsider(CODE, [REVISION], CodeIdentity(), CodeIdentity(code="b" * 64)) == (CODE, (REVISION,))


def test_an_autotuner_that_chose_differently_is_the_cause() -> None:
    """The same code with another configuration is code, and the two choices are said."""
    good, bad = (CodeIdentity(code="c" * 64, configuration=f"BLOCK_M {m}") for m in (64, 128))
    cause, fields = reconsider(CODE, [REVISION], good, bad)
    assert cause.finding_class is FindingClass.CODE
    assert cause.sentence.startswith("The code is the same, but its autotuner chose differently: BLOCK_M 64 → BLOCK_M")
    assert fields[0] == Difference(field="autotune", good="BLOCK_M 64", bad="BLOCK_M 128")


def test_other_classes_are_left_alone() -> None:
    """A moved baseline or environment is not reconsidered by the candidate's code."""
    cause = Cause(finding_class=FindingClass.BASELINE, sentence="The optimized arm moved.")
    same = CodeIdentity(code="a" * 64)
    assert reconsider(cause, [DRIVER], same, same) == (cause, (DRIVER,))


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
