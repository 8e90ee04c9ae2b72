"""Nsight Compute: one run of a plan under the GPU's own profiler, as the same counts that the simulator takes.

| field of `Counts` | metrics of ncu | where it differs from the simulator's count |
| --- | --- | --- |
| warp_instructions | smsp__inst_executed.sum | machine instructions (SASS), not those of the PTX |
| thread_instructions | smsp__thread_inst_executed.sum | likewise |
| by_class | sass__inst_executed_per_opcode_with_modifier_all | by the machine's opcode (`_CLASSES`) |
| flops: fp64, fp32 | smsp__sass_thread_inst_executed_op_{d,f}{add,mul,fma}_pred_on.sum | |
| … fp16 | threads of HADD2, HMUL2, HFMA2, by opcode | an HFMA2 is ptxas's way to load a constant, too |
| … tensor | sm__ops_path_tensor_src_*.sum | |
| loads, stores: requests | l1tex__t_requests_pipe_lsu_mem_global_op_{ld,st}.sum | |
| … sectors | l1tex__t_sectors_pipe_lsu_mem_global_op_{ld,st}.sum | |
| … useful_bytes | smsp__sass_data_bytes_mem_global_op_{ld,ldgsts,st}.sum | without bulk copies |
| … unique_sectors | dram__sectors_{read,write}.sum | what DRAM saw: writes may stay in the L2 |
| local: requests, sectors | l1tex__t_{requests,sectors}_pipe_lsu_mem_local_op_{ld,st}.sum | |
| shared: requests | smsp__inst_executed_op_{shared_ld,shared_st,ldsm,shared_stsm,ldgsts}_pred_on_any.sum | |
| … wavefronts, least_wavefronts | memory_l1_wavefronts_shared, …_shared_ideal | less those of atomics |
| atomics: requests, operations | opcodes ATOM*, RED*; their threads | turns are not counted |
| branches, divergent_branches | smsp__sass_branch_targets.sum, …_threads_divergent.sum | |
| barriers | opcode BAR | |

`Reading`: gpu__time_duration.sum, sm__warps_active, sm__, l1tex__, lts__ and gpu__dram_throughput, of their peaks.

Useful bytes are at most what the sectors hold (loads from another block's shared memory count as well). A name that
this ncu or GPU does not know is left out of the report without a word. Clocks are left as they are (`--clock-control
none`: a shared machine's clocks are not ours to set); caches are flushed before each pass, which is ncu's default.
Sources: Nsight Compute, Kernel Profiling Guide, "Metrics Reference", and its CLI manual, "Command Line Options".
"""

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from common.contract.counters import Atomics, InstructionClass, LaunchCounts, Reading, SharedTraffic, Traffic
from common.demangled import without_parameters
from evaluator.backends.gpu.tools.launch import COUNTERS_REMEDY, REPORT, ToolMissingError, ToolRun, ToolRunner
from evaluator.backends.session import KernelLaunch, PlanRun, Program

_LIMIT_S: Final = 60.0
_MAX_LAUNCHES: Final = 64
_OPCODES: Final = "sass__inst_executed_per_opcode_with_modifier_all"
_THREADS_BY_OPCODE: Final = "sass__thread_inst_executed_true_per_opcode_with_modifier_all"
_FLOPS: Final = {"fp64": "d", "fp32": "f"}
_HALF_FLOPS: Final = {"HADD2": 2, "HMUL2": 2, "HFMA2": 4}
"""Of one thread: an instruction on halves does two at once."""
_HALF_ARITHMETIC: Final = re.compile(r"^[ \t\r{]*(?:@\S+\s+)?(?:add|sub|mul|fma)\.\S*f16", re.MULTILINE)
_TENSOR: Final = tuple(
    f"sm__ops_path_tensor_src_{kind}.sum" for kind in ("fp64", "fp16", "bf16_dst_fp32", "tf32_dst_fp32", "fp8")
)

_COUNTS: Final[dict[str, tuple[str, ...]]] = {
    "warp_instructions": ("smsp__inst_executed.sum",),
    "thread_instructions": ("smsp__thread_inst_executed.sum",),
    "branches": ("smsp__sass_branch_targets.sum",),
    "divergent_branches": ("smsp__sass_branch_targets_threads_divergent.sum",),
}
_TRAFFIC: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    **{
        name: {
            "requests": (f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum",),
            "sectors": (f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum",),
            "useful_bytes": tuple(f"smsp__sass_data_bytes_mem_global_op_{each}.sum" for each in own),
            "unique_sectors": (f"dram__sectors_{direction}.sum",),
        }
        for name, op, own, direction in (
            ("loads", "ld", ("ld", "ldgsts"), "read"),
            ("stores", "st", ("st",), "write"),
        )
    },
    "local": {
        unit: tuple(f"l1tex__t_{unit}_pipe_lsu_mem_local_op_{op}.sum" for op in ("ld", "st"))
        for unit in ("requests", "sectors")
    },
}
_SHARED: Final[dict[str, tuple[str, ...]]] = {
    # Without those that no lane executes: ptxas puts such loads next to barriers.
    "requests": tuple(
        f"smsp__inst_executed_op_{op}_pred_on_any.sum"
        for op in ("shared_ld", "shared_st", "ldsm", "shared_stsm", "ldgsts")
    ),
    "wavefronts": ("memory_l1_wavefronts_shared",),
    "least_wavefronts": ("memory_l1_wavefronts_shared_ideal",),
}
_SHARED_ATOMICS: Final = "smsp__inst_executed_op_shared_atom_pred_on_any.sum"
_ATOMICS_WAVEFRONTS: Final = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum"
_GLOBAL_ATOMICS: Final = "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum"
_LATENCY_NS: Final = "gpu__time_duration.sum"
_SHARES: Final = {
    "achieved_occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm_share": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1_share": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "l2_share": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "dram_share": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
}

_CLASSES: Final[dict[InstructionClass, str]] = {
    # Opcodes with their modifiers; CUDA Binary Utilities, "Instruction Set Reference" (Turing to Blackwell). The
    # first that fits counts.
    "tensor": "HMMA|IMMA|BMMA|DMMA|QMMA|OMMA|HGMMA|IGMMA|BGMMA|QGMMA|UTC\\w*MMA",
    "fp64": "DADD|DMUL|DFMA|DSETP|DMNMX|DSET",
    "conversion": "[FI]2[FIP]\\w*|FRND|HADD2\\.F32",
    "fp16": "H(ADD2|MUL2|FMA2|SETP2|SET2|MNMX2)",
    "fp32": "F(ADD2?|MUL2?|FMA2?|SETP|SET|MNMX3?|CHK|CMP|SWZADD|FMA32I|ADD32I|MUL32I)|RRO",
    "special": "MUFU",
    "atomic": "ATOM\\w*|RED|REDG|REDAS|UTMARED\\w*|SUATOM|SURED",
    "local": "LDL|STL",
    "shared": "LDS\\w*|STS\\w*|MATCHS|STAS",
    "global": "LDG|LDGSTS|STG|LD|ST|UTMALDG\\w*|UTMASTG\\w*|UBLK\\w+|CCTL\\w*|TEX|TLD\\w*|SULD|SUST",
    "constant": "U?LDCU?",
    "shuffle": "SHFL|VOTEU?|MATCH|REDUX|CREDUX|ELECT",
    "barrier": "BAR|B2R|R2B|SYNCS\\w*|WARPSYNC|NANOSLEEP|DEPBAR|LDGDEPBAR|MEMBAR|ERRBAR|CGAERRBAR|FENCE|U?CGABAR\\w*"
    "|ARRIVES|WARPGROUP\\w*|ACQBULK|BMOV|YIELD",
    "control": "BRA|BRX|BRXU|JMP|JMX|JMXU|CALL|RET|EXIT|BSSY|BSYNC|BREAK|KILL|BPT|NOP|PREEXIT|RPCMOV|LEPC|WARPSYNC",
    "move": "U?(I?MOV\\w*|IMAD\\.MOV|F?SEL|P2R|R2P|P2UR|S2R|CS2R|S2UR|R2UR|GETLMEMBASE|MOVM)",
    "integer": "U?(IADD\\w*|IMAD\\w*|IABS|IMNMX\\w*|VIMNMX\\w*|VIADD\\w*|IDP\\w*|IMUL\\w*|LEA\\w*|LOP\\w*|SHF|"
    "SHL|SHR|ISETP|ISET|ISCADD|BREV|BMSK|POPC|FLO|SGXT|VABSDIFF\\w*|PLOP3|PSETP|PRMT|IADD3_64|VIADDMNMX)",
}
_CLASS_OF: Final = [(name, re.compile(rf"(?:{pattern})(?:\.|$)")) for name, pattern in _CLASSES.items()]


def _metrics() -> tuple[str, ...]:
    named = [*_COUNTS.values(), *_SHARED.values(), *(m for t in _TRAFFIC.values() for m in t.values())]
    flops = [_flop_metric(letter, op) for letter in _FLOPS.values() for op in ("add", "mul", "fma")]
    every = [*(one for several in named for one in several), *flops, *_TENSOR, _OPCODES, _THREADS_BY_OPCODE]
    # The plain counts by opcode bring those with modifiers along.
    every += [name.removesuffix("_with_modifier_all") for name in (_OPCODES, _THREADS_BY_OPCODE)]
    every += [_SHARED_ATOMICS, _ATOMICS_WAVEFRONTS, _GLOBAL_ATOMICS, _LATENCY_NS]
    return tuple(dict.fromkeys([*every, *_SHARES.values()]))


def _flop_metric(letter: str, op: str) -> str:
    return f"smsp__sass_thread_inst_executed_op_{letter}{op}_pred_on.sum"


METRICS: Final = _metrics()
"""All metrics that are asked for."""


@dataclass(frozen=True)
class LaunchMetrics:
    """What ncu says of one launch."""

    symbol: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    values: Mapping[str, float]
    """By metric, in base units; a metric that this GPU lacks is missing."""
    parts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Of metrics with several instances, such as counts by opcode."""


class Profiler:
    """Profiles on one GPU; remembers which metrics it does not have."""

    def __init__(self, tool_runner: ToolRunner) -> None:
        self._tool_runner = tool_runner
        self._absent: set[str] = set()

    def profile(
        self, program: Program, run: PlanRun, static_shared_bytes: Mapping[str, int]
    ) -> tuple[LaunchCounts, ...]:
        """Counts of the plan's first launches, in their order.

        `static_shared_bytes` is by the kernel's demangled name. Raises ToolMissingError for whatever kept the
        profiler from it, InfrastructureError.
        """
        watched = self._watched(program, run)
        absent = absent_metrics(watched.report)
        if absent - self._absent:
            self._absent |= absent
            watched = self._watched(program, run)
        rows = parse_report(watched.report)
        launches = [step for step in run.steps if isinstance(step, KernelLaunch)][:_MAX_LAUNCHES]
        if len(rows) < len(launches) or any(r.symbol != s.symbol for r, s in zip(rows, launches, strict=False)):
            raise refusal(watched)
        entries = {entry.symbol: entry for entry in program.entries}
        found = []
        for row, launch in zip(rows, launches, strict=False):
            name = entries[launch.symbol].name
            shared_bytes = launch.shared_bytes + static_shared_bytes.get(name, 0)
            kernel = without_parameters(name)
            found.append(launch_counts(row, kernel, launch, shared_bytes, has_half_arithmetic(program.ptx)))
        return tuple(found)

    def _watched(self, program: Program, run: PlanRun) -> ToolRun:
        wanted = [metric for metric in METRICS if metric not in self._absent]
        return self._tool_runner.watch("ncu", options(wanted), program, [run], run.poison, _LIMIT_S)


def options(metrics: Iterable[str]) -> tuple[str, ...]:
    """The tool's arguments before the program's own."""
    return (
        *("--csv", "--page", "raw", "--print-units", "base", "--print-kernel-base", "mangled"),
        *("--print-metric-instances", "details", "--log-file", REPORT),
        *("--clock-control", "none", "--launch-count", str(_MAX_LAUNCHES)),
        *("--metrics", ",".join(metrics)),
    )


def absent_metrics(report: str) -> set[str]:
    """Metrics that ncu does not know on this GPU."""
    lines = [line for line in report.splitlines() if line.startswith("==ERROR==") and "metric" in line.lower()]
    return {metric for line in lines for metric in METRICS if re.search(rf"{re.escape(metric)}(?![\w.])", line)}


def refusal(watched: ToolRun) -> ToolMissingError:
    """Why there are no counts, from what the tool and the watched process said."""
    text = f"{watched.report}\n{watched.said}"
    if "ERR_NVGPUCTRPERM" in text:
        return ToolMissingError(
            "this user may not read the GPU's performance counters (ERR_NVGPUCTRPERM)",
            COUNTERS_REMEDY,
        )
    if watched.timed_out:
        return ToolMissingError(
            f"the profiler was not done after {_LIMIT_S:g} s", "Profile at a smaller size (--size NAME=N)."
        )
    if watched.fault is not None:
        return ToolMissingError(f"the plan ended with {watched.fault} under the profiler", "Run `assay doctor`.")
    said = [line for line in text.splitlines() if line.startswith(("==ERROR==", "==WARNING=="))] or text.splitlines()
    reason = said[0].partition("== ")[2] or said[0] if said else "it printed nothing"
    return ToolMissingError(f"ncu gave no counts: {reason.strip()[:300]}", "Run `assay doctor`.")


def parse_report(report: str) -> list[LaunchMetrics]:
    """The rows of `--csv --page raw`: names, then units, then one row for each launch."""
    lines = [line for line in report.splitlines() if line.startswith('"')]
    table = list(csv.reader(lines))
    if len(table) < 3 or "Kernel Name" not in table[0]:
        return []
    names = table[0]
    return [_row(dict(zip(names, cells, strict=False))) for cells in table[2:]]


def _row(cells: dict[str, str]) -> LaunchMetrics:
    values, parts = {}, {}
    for name, text in cells.items():
        number = re.match(r"[\d,.]+(?:e[+-]?\d+)?", text)
        if number is None or ("__" not in name and not name.startswith("memory_")):
            continue
        values[name] = float(number[0].replace(",", ""))
        instances = re.findall(r"([A-Z][A-Z0-9_.]*): (\d+)", text[number.end() :])
        if instances:
            parts[name] = {opcode: int(count.replace(",", "")) for opcode, count in instances}
    return LaunchMetrics(
        cells["Kernel Name"], _triple(cells["Grid Size"]), _triple(cells["Block Size"]), values, parts
    )


def _triple(text: str) -> tuple[int, int, int]:
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    return numbers[0], numbers[1], numbers[2]


def has_half_arithmetic(ptx: str) -> bool:
    """Whether a program computes with halves: if not, its HFMA2 are moves of constants."""
    return _HALF_ARITHMETIC.search(ptx) is not None


def launch_counts(
    row: LaunchMetrics, kernel: str, launch: KernelLaunch, shared_bytes: int, halves: bool = True
) -> LaunchCounts:
    """A row as the counts of one launch; `halves`: see `has_half_arithmetic`."""

    def total(metrics: Iterable[str]) -> int:
        return round(sum(row.values.get(metric, 0.0) for metric in metrics))

    traffic = {name: Traffic(**{unit: total(m) for unit, m in units.items()}) for name, units in _TRAFFIC.items()}
    for name in ("loads", "stores"):
        most = 32 * traffic[name].sectors
        traffic[name] = traffic[name].model_copy(update={"useful_bytes": min(traffic[name].useful_bytes, most)})
    opcodes, threads = (_renamed(row.parts.get(metric, {}), halves) for metric in (_OPCODES, _THREADS_BY_OPCODE))
    return LaunchCounts(
        kernel=kernel,
        grid=launch.grid,
        block=launch.block,
        shared_bytes=shared_bytes,
        counted_blocks=launch.grid[0] * launch.grid[1] * launch.grid[2],
        **{name: total(metrics) for name, metrics in _COUNTS.items()},
        by_class=_by_class(opcodes),
        flops=_flops(row.values, threads),
        **traffic,
        shared=_shared(row.values, {unit: total(metrics) for unit, metrics in _SHARED.items()}),
        atomics=Atomics(requests=_of_class(opcodes, "atomic"), operations=_of_class(threads, "atomic")),
        barriers=sum(count for opcode, count in opcodes.items() if opcode.split(".")[0] == "BAR"),
        reading=_reading(row.values),
    )


def class_of(opcode: str) -> InstructionClass:
    """The class of one of the machine's opcodes: `FFMA` is `fp32`."""
    return next((name for name, pattern in _CLASS_OF if pattern.match(opcode)), "other")


def _renamed(opcodes: Mapping[str, int], halves: bool) -> dict[str, int]:
    """Counts by opcode, an HFMA2 as the move that it is in a program without halves."""
    return {"MOV." * (not halves and name.startswith("HFMA2")) + name: count for name, count in opcodes.items()}


def _shared(values: Mapping[str, float], whole: Mapping[str, int]) -> SharedTraffic:
    """The traffic without that of atomics, which the tool counts in: an atomic is one wavefront at least."""
    atomics = round(values.get(_SHARED_ATOMICS, 0.0))
    if not atomics:
        return SharedTraffic(**whole)
    theirs = round(values.get(_ATOMICS_WAVEFRONTS, 0.0) - values.get(_GLOBAL_ATOMICS, 0.0))
    least = max(whole["least_wavefronts"] - atomics, 0)
    wavefronts = max(whole["wavefronts"] - max(theirs, atomics), least)
    return SharedTraffic(requests=whole["requests"], wavefronts=wavefronts, least_wavefronts=least)


def _by_class(opcodes: Mapping[str, int]) -> dict[InstructionClass, int]:
    found: dict[InstructionClass, int] = {}
    for opcode, count in opcodes.items():
        found[class_of(opcode)] = found.get(class_of(opcode), 0) + count
    return found


def _of_class(opcodes: Mapping[str, int], name: InstructionClass) -> int:
    return _by_class(opcodes).get(name, 0)


def _flops(values: Mapping[str, float], threads: Mapping[str, int]) -> dict[Any, int]:
    found = {"tensor": round(sum(values.get(metric, 0.0) for metric in _TENSOR))}
    for name, letter in _FLOPS.items():
        add, mul, fma = (values.get(_flop_metric(letter, op), 0.0) for op in ("add", "mul", "fma"))
        found[name] = round(add + mul + 2 * fma)
    halves = [(opcode.split(".")[0], count) for opcode, count in threads.items() if class_of(opcode) == "fp16"]
    found["fp16"] = sum(_HALF_FLOPS.get(stem, 0) * count for stem, count in halves)
    return {name: operations for name, operations in found.items() if operations}


def _reading(values: Mapping[str, float]) -> Reading:
    shares = {name: min(values[metric] / 100, 1.0) for name, metric in _SHARES.items() if metric in values}
    return Reading(latency_us=values[_LATENCY_NS] / 1000 if _LATENCY_NS in values else None, **shares)
