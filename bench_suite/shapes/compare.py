"""Two lists side by side: how their time is spread over operators, and how much of each the other stands for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from bench_suite.shapes.representatives import COVERED_RATIO, Origin, Representative, ShapeList

SIZE_AXES = ("M", "rows", "q", "batch", "elements")
"""The axis that traffic decides, first that a shape has."""
TRAFFIC_AXES = frozenset(SIZE_AXES) | {"kv"}
_ATTENTION_BATCH = "attention_decode"

Key = tuple[str, tuple[tuple[str, int | tuple[int, ...]], ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyShare:
    """One family of an operator in both lists; a share is of the list's time, a count of its shapes."""

    operator: str
    family: str
    share_a: float
    share_b: float
    shapes_a: int
    shapes_b: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListComparison:
    """What two lists have in common. Shares are of a list's own time."""

    families: tuple[FamilyShare, ...]
    """Largest difference first."""
    distance: float
    """Half the sum of the families' differences: the share of time that lies with other operators, 0 to 1."""
    common_shapes: int
    """Exactly the same sizes."""
    common_share_a: float
    common_share_b: float
    near_share_a: float
    """Of A's time, in shapes that B has one within COVERED_RATIO of: same operator, same sizes of the model."""
    near_share_b: float
    settings: tuple[tuple[str, str, str], ...]
    """(name, in A, in B) of what was derived or recorded otherwise."""


def compare_lists(a: ShapeList, b: ShapeList) -> ListComparison:
    """Compares two lists, derived or recorded."""
    families = _families(a.shapes, b.shapes)
    common = {_exact(s) for s in a.shapes} & {_exact(s) for s in b.shapes}
    return ListComparison(
        families=families,
        distance=sum(abs(f.share_a - f.share_b) for f in families) / 2,
        common_shapes=len(common),
        common_share_a=sum(s.weight_time for s in a.shapes if _exact(s) in common),
        common_share_b=sum(s.weight_time for s in b.shapes if _exact(s) in common),
        near_share_a=_near_share(a.shapes, b.shapes),
        near_share_b=_near_share(b.shapes, a.shapes),
        settings=_settings(a.origin, b.origin),
    )


def size_of(shape: Representative) -> int:
    """The size that traffic decides: M, rows, q, batch or elements; 1 where a shape has none of them."""
    sizes = dict(shape.axes)
    names = ("batch",) if shape.operator == _ATTENTION_BATCH else SIZE_AXES
    size = next((sizes[name] for name in names if name in sizes), 1)
    return size if isinstance(size, int) else len(size)


def _families(a: Sequence[Representative], b: Sequence[Representative]) -> tuple[FamilyShare, ...]:
    shares: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0, 0, 0])
    for column, shapes in enumerate((a, b)):
        for shape in shapes:
            entry = shares[(shape.operator, shape.family)]
            entry[column] += shape.weight_time
            entry[2 + column] += 1
    found = [
        FamilyShare(
            operator=operator, family=family, share_a=e[0], share_b=e[1], shapes_a=int(e[2]), shapes_b=int(e[3])
        )
        for (operator, family), e in shares.items()
    ]
    return tuple(sorted(found, key=lambda f: (-abs(f.share_a - f.share_b), f.operator, f.family)))


def _exact(shape: Representative) -> Key:
    return shape.operator, shape.axes


def _of_model(shape: Representative) -> Key:
    """The operator, and the sizes that the model decides."""
    return shape.operator, tuple((name, size) for name, size in shape.axes if name not in TRAFFIC_AXES)


def _near_share(shapes: Iterable[Representative], others: Iterable[Representative]) -> float:
    sizes: Mapping[Key, list[int]] = defaultdict(list)
    for other in others:
        sizes[_of_model(other)].append(size_of(other))
    near = (s for s in shapes if any(_alike(size_of(s), size) for size in sizes.get(_of_model(s), ())))
    return sum(shape.weight_time for shape in near)


def _alike(one: int, other: int) -> bool:
    return max(one, other) <= COVERED_RATIO * min(one, other)


def _settings(a: Origin, b: Origin) -> tuple[tuple[str, str, str], ...]:
    """Every field that differs; of lists of different kinds their summaries."""
    if type(a) is not type(b):
        return (("origin", a.summary, b.summary),)
    values = [(field.name, getattr(a, field.name), getattr(b, field.name)) for field in fields(a)]
    return tuple((name, str(one), str(other)) for name, one, other in values if one != other)
