"""The environment variables of a worker: they decide what is measured, so they are set here and not inherited."""

from __future__ import annotations

import os
from collections.abc import Mapping

from collector.node.folders import cache_folder


def worker_environment(threads: int, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables of a worker.

    The heap is never given back (M_MMAP_MAX 0, no trimming): outputs of all arms then come from the same warm pages,
    the output pool of DESIGN; else each large output is a fresh mapping, and what is timed are page faults. It asks for
    huge pages (glibc 2.35 and later): on 4 KiB pages the time of a memory-bound kernel depends on where its process
    happened to get them, 1.3 to 2.6 ms for one RMSNorm from process to process.
    """
    environment = dict(base)
    environment |= {
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": str(2**40),
        "PYTHONHASHSEED": "0",
        "KINETO_LOG_LEVEL": "99",
    }
    environment.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache_folder() / "inductor"))
    environment.setdefault("TRITON_CACHE_DIR", str(cache_folder() / "triton"))
    return environment
