"""Does the simulator find and name 30 seeded races, undefined reads and barrier faults, and leave the mended be?

Each kernel of `tests/evaluator/backends/sim/seeded_faults` is a template that is wrong with MENDED false and right
with true, and its source marks the lines that must be named. What compute-sanitizer finds of the same kernels:

    python benchmarks/simulator/seeded_faults.py --ask-sanitizer FILE     (on a GPU; nvcc and compute-sanitizer on the
    PATH) python benchmarks/simulator/seeded_faults.py --sanitizer FILE         (anywhere: the table with both)
"""

import argparse
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._support.record import save
from common.contract import Fault, Settings
from evaluator.backends.session import (
    Buffer,
    BufferFill,
    Entry,
    Hazard,
    KernelLaunch,
    PlanRun,
    Pointer,
    Program,
    RunOutcome,
    Session,
    Watch,
)
from evaluator.pipeline.toolbox import Toolbox
from evaluator.settings import MachineSettings
from evaluator.stages.compile.nvcc import compile_source

FOLDER = Path(__file__).parents[2] / "tests" / "evaluator" / "backends" / "sim" / "seeded_faults"
ELEMENTS = 256
_TOOLS = ("racecheck", "initcheck", "synccheck", "memcheck")
_HANGS_S = 12
_AT_ONCE = 6
_RACES = ("race", "unawaited_copy")


@dataclass(frozen=True)
class Seeded:
    """One seeded fault, and what must be said about it."""

    name: str
    kind: str
    buffer: str | None
    lines: frozenset[int]
    grid: int
    block: int
    shared_bytes: int
    zeroed: bool
    """Whether the output is zero at first."""


def seeded_in(source: str) -> list[Seeded]:
    """The faults that a source declares: `// seeded: NAME KIND BUFFER [grid=2 block=64 shared=0 zero=y]`."""
    found = []
    for name, kind, rest in re.findall(r"^// seeded: ([a-z_]\w*) (\w+) (.*)$", source, re.MULTILINE):
        options = dict(re.findall(r"(\w+)=(\w+)", rest))
        buffer = re.sub(r"\w+=\w+", "", rest).strip()
        lines = frozenset(n for n, line in enumerate(source.splitlines(), 1) if line.endswith(f"// {name}"))
        found.append(
            Seeded(
                name,
                kind,
                None if buffer == "-" else buffer,
                lines,
                int(options.get("grid", 2)),
                int(options.get("block", 64)),
                int(options.get("shared", 0)),
                "zero" in options,
            )
        )
    return found


def entry_of(program: Program, name: str, mended: bool) -> Entry:
    """The instantiation of a kernel; its demangled name has `<true>` or `<(bool)1>`."""
    wanted = re.compile(rf"\b{name}<(?:\(bool\))?{'(?:true|1)' if mended else '(?:false|0)'}>")
    return next(entry for entry in program.entries if wanted.search(entry.name))


def run(session: Session, program: Program, fault: Seeded, mended: bool, poison: int = 0x5B) -> RunOutcome:
    """One watched run of one kernel."""
    x = np.random.default_rng(1).standard_normal(ELEMENTS).astype(np.float32)
    buffers = (
        Buffer("x", "input", x.nbytes, 4, x),
        Buffer("y", "output", x.nbytes, 4, None),
        Buffer("t", "output", x.nbytes, 4, None),
    )
    fills: list[BufferFill] = [BufferFill("y", bytes(4))] if fault.zeroed else []
    # Tickets are counted in the scratch behind the elements, which a plan would fill as well.
    fills += [BufferFill("t", bytes(4))] if fault.kind == "race" and fault.buffer == "t" else []
    launch = KernelLaunch(
        entry_of(program, fault.name, mended).symbol,
        (fault.grid, 1, 1),
        (fault.block, 1, 1),
        fault.shared_bytes,
        False,
        (Pointer("x"), Pointer("y"), Pointer("t")),
    )
    return session.run(PlanRun(buffers, (*fills, launch), poison, 20.0, watch=Watch()))


def accusation(outcome: RunOutcome) -> Fault | Hazard | None:
    """What the run is accused of first: a fault, a race that can change the result, an undefined read."""
    if outcome.fault is not None:
        return outcome.fault
    races = [found for found in outcome.hazards if found.kind in _RACES]
    return next(iter(sorted(races, key=lambda found: found.kind == "race") or outcome.hazards), None)


def named_right(fault: Seeded, found: Fault | Hazard | None) -> bool:
    """Whether kind, lines, threads and buffer are those of the seeded fault."""
    if found is None:
        return False
    kind, told = (found.kind, found.fault) if isinstance(found, Hazard) else (found.kind, found)
    other = told.other
    lines = {line for line in (told.line, other.line if other else None) if line}
    met = other is None or (other.thread, other.block) != (told.thread, told.block)
    return kind == fault.kind and lines == fault.lines and told.buffer == fault.buffer and met


def simulated(toolbox: Toolbox) -> list[tuple[Seeded, RunOutcome, RunOutcome]]:
    """Each fault with the outcome of the wrong kernel and that of the mended one."""
    done = []
    for path in sorted(FOLDER.glob("*.cu")):
        source = path.read_text()
        compiled = compile_source(source, Settings(), "sm_80", toolbox.toolchain, toolbox.sandbox, toolbox.cache)
        assert compiled.program is not None, compiled.ruling
        for fault in seeded_in(source):
            # A process each: a fault ends it.
            outcomes = []
            for mended in (False, True):
                with toolbox.simulator.prepare(compiled.program, Settings()) as session:
                    outcomes.append(run(session, compiled.program, fault, mended))
            done.append((fault, outcomes[0], outcomes[1]))
    return done


_MAIN = """
#include <cstdio>
#include <cstdlib>
#include <cstring>
#define KERNEL(name, grid, block, shared, zero, zero_t)                                                     \\
    if (!strcmp(argv[1], #name)) {                                                                          \\
        if (zero) cudaMemset(y, 0, bytes);                                                                  \\
        if (zero_t) cudaMemset(t, 0, bytes);                                                                \\
        if (atoi(argv[2])) name<true><<<grid, block, shared>>>(x, y, t);                                    \\
        else name<false><<<grid, block, shared>>>(x, y, t);                                                 \\
    }
int main(int argc, char** argv)
{
    const size_t bytes = ELEMENTS * sizeof(float);
    float host[ELEMENTS], *x, *y, *t;
    for (int i = 0; i < ELEMENTS; ++i) host[i] = (i * 37 % 101) / 50.0f - 1.0f;
    if (cudaMalloc(&x, bytes) || cudaMalloc(&y, bytes) || cudaMalloc(&t, bytes)) return 3;
    cudaMemcpy(x, host, bytes, cudaMemcpyHostToDevice);
KERNELS
    const cudaError_t error = cudaDeviceSynchronize();
    if (error) printf("%s\\n", cudaGetErrorString(error));
    return error ? 4 : 0;
}
"""


def sanitizer_program(folder: Path, nvcc: str) -> Path:
    """One executable with all kernels: `./seeded NAME 0|1` runs one, wrong or mended."""
    faults = [(path, fault) for path in sorted(FOLDER.glob("*.cu")) for fault in seeded_in(path.read_text())]
    rows = [
        f"    KERNEL({f.name}, {f.grid}, {f.block}, {f.shared_bytes}, {int(f.zeroed)}, "
        f"{int(f.kind == 'race' and f.buffer == 't')})"
        for _, f in faults
    ]
    includes = "\n".join(f'#include "{path}"\n#undef BOTH' for path in sorted(FOLDER.glob("*.cu")))
    main = folder / "main.cu"
    text = _MAIN.replace("KERNELS", "\n".join(rows)).replace("ELEMENTS", str(ELEMENTS))
    main.write_text(includes + text)
    program = folder / "seeded"
    subprocess.run(
        [nvcc, "-arch=native", "-lineinfo", "-std=c++17", "-o", str(program), str(main)], check=True, timeout=300
    )
    return program


def sanitized() -> dict[str, dict[str, dict[str, bool]]]:
    """By kernel, then `wrong` or `mended`: which tools of compute-sanitizer report anything; a hang counts as not."""
    nvcc, sanitizer = shutil.which("nvcc"), shutil.which("compute-sanitizer")
    if nvcc is None or sanitizer is None:
        sys.exit("nvcc and compute-sanitizer must be on the PATH, beside a GPU.")
    faults = [fault for path in sorted(FOLDER.glob("*.cu")) for fault in seeded_in(path.read_text())]
    asked = list(itertools.product((fault.name for fault in faults), ("wrong", "mended"), _TOOLS))
    found: dict[str, dict[str, dict[str, bool]]] = {}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(_AT_ONCE) as pool:
        program = sanitizer_program(Path(folder), nvcc)

        def reports(name: str, label: str, tool: str) -> bool:
            command = [sanitizer, "--tool", tool, "--error-exitcode", "9", "--print-limit", "5"]
            return _exit_code([*command, str(program), name, str(int(label == "mended"))]) == 9

        for (name, label, tool), reported in zip(asked, pool.map(lambda one: reports(*one), asked), strict=True):
            print(f"{name} {label} {tool} {'reported' if reported else '-'}", flush=True)
            found.setdefault(name, {}).setdefault(label, {})[tool] = reported
    return found


def _exit_code(command: list[str]) -> int | None:
    """None for one that had to be ended, with all that it started: a tool leaves its program behind."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        return process.wait(_HANGS_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ask-sanitizer", type=Path, metavar="FILE", help="only ask compute-sanitizer, on this GPU")
    parser.add_argument("--sanitizer", type=Path, metavar="FILE", help="what it said, to stand beside")
    asked = parser.parse_args()
    if asked.ask_sanitizer:
        asked.ask_sanitizer.write_text(json.dumps(sanitized(), indent=1) + "\n")
        return 0
    results = simulated(Toolbox(MachineSettings.from_environment()))
    other = json.loads(asked.sanitizer.read_text()) if asked.sanitizer else {}
    table = Table("fault", "kind", "found", "named", "mended", "sanitizer", title="seeded faults")
    rows: dict[str, object] = {}
    found = named = accused = by_sanitizer = sanitizer_accused = 0
    for fault, wrong, mended in results:
        first, of_mended = accusation(wrong), accusation(mended)
        right = named_right(fault, first)
        tools = [tool for tool, yes in other.get(fault.name, {}).get("wrong", {}).items() if yes]
        wrongly = [tool for tool, yes in other.get(fault.name, {}).get("mended", {}).items() if yes]
        found += first is not None
        named += right
        accused += of_mended is not None
        by_sanitizer += bool(tools)
        sanitizer_accused += bool(wrongly)
        message = (first.fault if isinstance(first, Hazard) else first).message if first else ""
        said = "no" if of_mended is None else "ACCUSED"
        table.add_row(fault.name, fault.kind, str(first is not None), str(right), said, ", ".join(tools))
        rows[fault.name] = {"kind": fault.kind, "message": message, "named": right, "sanitizer": tools}
    Console().print(table)
    figures: dict[str, float] = {
        "seeded": len(results),
        "found": found,
        "named_right": named,
        "mended_accused": accused,
    }
    if asked.sanitizer:
        figures |= {"sanitizer_found": by_sanitizer, "sanitizer_mended_accused": sanitizer_accused}
    goals = {
        "seeded": (">=", 30.0),
        "found": (">=", 30.0),
        "named_right": (">=", 30.0),
        "mended_accused": ("<=", 0.0),
    }
    return 0 if save("seeded_faults", figures, goals, details={"faults": rows}) else 1


if __name__ == "__main__":
    sys.exit(main())
