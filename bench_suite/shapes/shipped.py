"""The lists of configs/shapes and the arguments that reproduce each of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from bench_suite.shapes.derive import derive
from bench_suite.shapes.errors import ShapeError
from bench_suite.shapes.listing import read_list, write_list
from bench_suite.shapes.representatives import ShapeList, represent
from bench_suite.shapes.training import TRAINING_RECIPES, TrainingRecipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Arguments of a derivation and of its reduction."""

    trace: str
    model: str
    tensor_parallel: int
    load: float
    token_budget: int
    representatives: int
    padding: str = "none"

    @property
    def name(self) -> str:
        """File name without its ending: what the list is, readable."""
        trace = self.trace.replace("_", "-")
        padding = "" if self.padding == "none" else f"_{self.padding}"
        return f"{self.model}_tp{self.tensor_parallel}_{trace}_load{self.load:g}_budget{self.token_budget}{padding}"

    def derive(self) -> ShapeList:
        table = derive(
            self.trace,
            self.model,
            tensor_parallel=self.tensor_parallel,
            token_budget=self.token_budget,
            load=self.load,
            padding=self.padding,
        )
        return represent(table, self.representatives)


def _recipe(trace: str, model: str, tp: int, load: float, budget: int, representatives: int) -> Recipe:
    return Recipe(
        trace=trace, model=model, tensor_parallel=tp, load=load, token_budget=budget, representatives=representatives
    )


RECIPES: Mapping[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        _recipe("azure2023_conv", "llama-3.1-8b", 1, 1, 2048, 32),
        _recipe("azure2023_conv", "llama-3.1-8b", 1, 4, 2048, 64),
        _recipe("azure2023_conv", "llama-3.1-70b", 4, 1.3, 2048, 64),
        _recipe("azure2023_code", "qwen2.5-7b", 1, 6, 8192, 64),
        _recipe("mooncake_conversation", "llama-3.1-70b", 4, 0.3, 8192, 64),
        _recipe("azure2023_conv", "qwen3-30b-a3b", 1, 1, 8192, 64),
        _recipe("azure2023_conv", "gpt-oss-120b", 4, 2, 8192, 64),
    )
}


ALL_RECIPES: Mapping[str, Recipe | TrainingRecipe] = {**RECIPES, **TRAINING_RECIPES}
"""Every shipped list: of serving a trace, and of training steps."""


def shipped_list(name: str) -> ShapeList:
    """A shipped list by its name; ShapeError lists the known ones."""
    _check(name)
    with resources.as_file(resources.files("configs") / "shapes" / f"{name}.toml") as path:
        return read_list(path)


def shipped_text(name: str) -> str:
    """The bytes of a shipped list, as text; ShapeError lists the known names."""
    _check(name)
    return (resources.files("configs") / "shapes" / f"{name}.toml").read_text(encoding="utf-8")


def _check(name: str) -> None:
    if name not in ALL_RECIPES:
        raise ShapeError(f"shape list {name!r}: not shipped, must be one of {', '.join(ALL_RECIPES)}")


def main() -> None:
    """Writes every shipped list anew into the folder given, configs/shapes by default."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("configs/shapes")
    for name, recipe in ALL_RECIPES.items():
        (folder / f"{name}.toml").write_text(write_list(recipe.derive()), encoding="utf-8")


if __name__ == "__main__":
    main()
