"""Kernels graded in KernelBench's way, several at once, each in a process of its own."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from benchmarks._support.kernel_variants import Variant, honest
from benchmarks._support.throughput_passes import machine_cpu_s
from evaluator.problems.catalogue import find_problem

_KERNELBENCH_WAY: Final = Path(__file__).parents[1] / "gpu" / "kernelbench_way.py"
_PEERS: Final = 8
"""Kernels, each of another problem, and processes at the same time: more do not fit the memory of every GPU."""
_PEER_S: Final = 240.0
_LEAST_S: Final = 10.0
"""Less time than this builds none of them."""


def kernelbench_figures(until_s: float, keep: Callable[[dict[str, float]], None]) -> None:
    """Grade the kernels cold, then again with its build cache; `keep` gets the figures of each pass."""
    families: dict[str, Variant] = {}
    for variant in honest():
        families.setdefault(variant.problem, variant)
    chosen = list(families.values())[-_PEERS:]
    with tempfile.TemporaryDirectory(prefix="kernelbench-way-", ignore_cleanup_errors=True) as folder:
        for heat in ("cold", "warm"):
            left_s = until_s - time.monotonic()
            if left_s < _LEAST_S:
                return
            started_s, before_s = time.monotonic(), machine_cpu_s()
            with ThreadPoolExecutor(_PEERS) as pool:
                took = list(pool.map(lambda one: _peer_s(one, Path(folder), left_s), chosen))  # noqa: B023
            done = [seconds for seconds in took if seconds is not None]
            if not done:
                return
            seconds = time.monotonic() - started_s
            keep(
                {
                    f"kernelbench_{heat}_per_minute": 60 * len(done) / seconds,
                    f"kernelbench_{heat}_seconds": seconds,
                    f"kernelbench_{heat}_p50_s": statistics.median(done),
                    f"kernelbench_{heat}_evaluations": len(done),
                    f"kernelbench_{heat}_cpu_s_each": (machine_cpu_s() - before_s) / len(done),
                    "kernelbench_at_once": _PEERS,
                }
            )
            print(f"KernelBench's way, {heat}: {statistics.median(done):.1f} s each", flush=True)


def _peer_s(variant: Variant, folder: Path, time_limit_s: float) -> float | None:
    """Seconds that one evaluation takes; None where it fails."""
    task = folder / f"{variant.name}.json"
    build = folder / variant.name
    build.mkdir(exist_ok=True)
    content = {"name": variant.name, "problem": find_problem(variant.problem).id, "source": variant.source}
    task.write_text(json.dumps({**content, "build_folder": str(build)}))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        # ninja, which the build needs, lies beside Python where it was installed with pip.
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath))),
    }
    command = [sys.executable, str(_KERNELBENCH_WAY), str(task)]
    started_s = time.monotonic()
    try:
        finished = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=min(_PEER_S, time_limit_s), check=False
        )
    except subprocess.TimeoutExpired:
        return None
    took_s = time.monotonic() - started_s
    if finished.returncode or not json.loads(finished.stdout.splitlines()[-1])["right"]:
        print(f"{variant.name}: {(finished.stderr or finished.stdout)[-800:]}", flush=True)
        return None
    return took_s
