"""Loss curves from a CSV file: the evidence of a training gate."""

from __future__ import annotations

import csv
from pathlib import Path

from detection.gate_curves import Curve, CurveRole
from detection.policy import PolicyError

COLUMNS = ("curve", "role", "step", "loss")


def read_curves(path: str | Path) -> tuple[Curve, ...]:
    """The curves of a file with the columns curve, role, step, loss; one row a step.

    Raises:
        PolicyError: the file cannot be read, or a line of it is not such a row; one line, with its number.
    """
    losses: dict[tuple[str, CurveRole], dict[int, float]] = {}
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
            if missing:
                raise PolicyError(f"curves {path}: has no column {missing[0]!r}, must have {', '.join(COLUMNS)}")
            for row in rows:
                where = f"curves {path}: line {rows.line_num}"
                role, step, loss = _role(row["role"], where), _step(row["step"], where), _loss(row["loss"], where)
                steps = losses.setdefault((row["curve"], role), {})
                if step in steps:
                    raise PolicyError(f"{where}: step {step} of curve {row['curve']!r} appears twice")
                steps[step] = loss
    except OSError as error:
        raise PolicyError(f"curves {path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PolicyError(f"curves {path}: cannot be read: it is not UTF-8 text") from error
    curves = tuple(Curve(name=name, role=role, losses=steps) for (name, role), steps in losses.items())
    candidates = [curve.name for curve in curves if curve.role is CurveRole.CANDIDATE]
    if len(candidates) > 1:
        raise PolicyError(f"curves {path}: {', '.join(candidates)} are all of role candidate, must be one")
    return curves


def _role(text: str | None, where: str) -> CurveRole:
    if text not in set(CurveRole):
        raise PolicyError(f"{where}: role is {text!r}, must be one of {', '.join(CurveRole)}")
    return CurveRole(text)


def _step(text: str | None, where: str) -> int:
    try:
        return int(text or "")
    except ValueError:
        raise PolicyError(f"{where}: step is {text!r}, must be a whole number") from None


def _loss(text: str | None, where: str) -> float:
    try:
        return float(text or "")
    except ValueError:
        raise PolicyError(f"{where}: loss is {text!r}, must be a number (nan and inf are)") from None
