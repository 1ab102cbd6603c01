"""Compiles kernels for chips that are not there and reads the binaries; run as a process by bench_suite.static."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from bench_suite.kernels.catalog import Variant, variants
from bench_suite.kernels.machine_code import read_amd_resources, read_amdgcn, read_resource_usage, read_sass
from bench_suite.kernels.runtime import DeviceTraits
from bench_suite.static import CHIPS, StaticMetrics

_TORCH_TYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def target(chip: str) -> GPUTarget:
    """sm_90 -> the CUDA target 90 with warps of 32; gfx942 -> the HIP target with waves of 64."""
    return GPUTarget("cuda", int(chip[3:]), 32) if chip.startswith("sm_") else GPUTarget("hip", chip, 64)


def compile_variant(variant: Variant, chip: str) -> Any:
    """Triton's compiled kernel: `asm` has all stages, `metadata.shared` the dynamic shared memory."""
    names = variant.function.arg_names
    types = {name: variant.types[name].split(":")[0] if name in variant.types else "constexpr" for name in names}
    aligned = {(names.index(name),): [["tt.divisibility", 16]] for name, kind in variant.types.items() if ":" in kind}
    source = ASTSource(variant.function, types, dict(variant.constants), aligned)
    options = {"num_warps": variant.num_warps, "num_stages": variant.num_stages}
    return triton.compile(source, target=target(chip), options=options)


def measure(variant: Variant, chip: str) -> StaticMetrics:
    """Compiles and inspects; a refusal of the compiler is a result, too."""
    known: dict[str, Any] = {
        "operator": variant.operator,
        "kernel": variant.kernel,
        "variant": variant.name,
        "chip": chip,
        "num_warps": variant.num_warps,
        "num_stages": variant.num_stages,
        "compiler": f"triton {triton.__version__}",
    }
    start = time.perf_counter()
    try:
        compiled = compile_variant(variant, chip)
    except Exception as error:  # the compiler raises what it likes
        return StaticMetrics(**known, failure=f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
    known["compile_s"] = round(time.perf_counter() - start, 3)
    known["shared_bytes"] = int(compiled.metadata.shared)
    return StaticMetrics(**known, **(_read_nvidia(compiled) if chip.startswith("sm_") else _read_amd(compiled)))


def _read_nvidia(compiled: Any) -> dict[str, Any]:
    binary: bytes = compiled.asm["cubin"]
    cuobjdump = triton.knobs.nvidia.cuobjdump.path
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(binary)
        usage, sass = (
            subprocess.run([cuobjdump, option, str(file)], capture_output=True, text=True, check=True).stdout
            for option in ("-res-usage", "-sass")
        )
    registers, stack_bytes = read_resource_usage(usage)
    counts = read_sass(sass)
    return {
        "registers": registers,
        "stack_bytes": stack_bytes,
        "spills": counts.spill_instructions,
        **_common(counts, binary),
    }


def _read_amd(compiled: Any) -> dict[str, Any]:
    listing: str = compiled.asm["amdgcn"]
    resources = read_amd_resources(listing)
    return {
        "registers": resources.vector_registers,
        "accumulation_registers": resources.accumulation_registers,
        "scalar_registers": resources.scalar_registers,
        "stack_bytes": resources.stack_bytes,
        "spills": resources.spills,
        **_common(read_amdgcn(listing), compiled.asm["hsaco"]),
    }


def _common(counts: Any, binary: bytes) -> dict[str, Any]:
    return {
        "matrix_instructions": counts.matrix_instructions,
        "matrix_kind": counts.matrix_kind,
        "instructions": counts.instructions,
        "load_widths": counts.load_widths,
        "binary_bytes": len(binary),
        "binary_sha256": hashlib.sha256(binary).hexdigest(),
    }


def measure_all(chips: list[str], dtype: str, operators: list[str]) -> Iterator[StaticMetrics]:
    for chip in chips:
        traits = DeviceTraits(architecture=chip, processors=CHIPS[chip])
        for variant in variants(traits, _TORCH_TYPES[dtype]):
            if not operators or variant.operator in operators:
                yield measure(variant, chip)


def main() -> None:
    """Argument: JSON with chips, dtype, operators. Output: one line of JSON for each kernel and chip."""
    for metrics in measure_all(**json.loads(sys.argv[1])):
        sys.stdout.write(json.dumps(asdict(metrics)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
