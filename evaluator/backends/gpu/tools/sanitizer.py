"""compute-sanitizer: what NVIDIA's checker finds in runs of a plan, as facts in the simulator's words.

| tool | finds | what it is worth here |
| --- | --- | --- |
| memcheck | accesses outside of an allocation, or misaligned | certain |
| racecheck | races in shared memory, by the two instructions | certain if an `Error` and only barriers order |
| synccheck | barriers that a part of the threads does not reach | a hint: hardware lets threads leave early |
| initcheck | reads of global memory that nothing has written | a hint: what is read may not matter |

Lines are known where the cubin has them (made with `-lineinfo`). racecheck is let analyse instead of telling each
hazard: a race of a whole kernel is a million of them, and telling the first fifty took it more than 40 s on an H200,
against 4 s.

Source: Compute Sanitizer User Manual, "Memcheck", "Racecheck", "Initcheck" and "Synccheck Tool".
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final, Literal, TypeAlias

from common.contract import Fault
from evaluator.backends.gpu.tools.launch import REPORT, ToolMissingError, ToolRun, ToolRunner
from evaluator.backends.session import PlanRun, Program

Tool: TypeAlias = Literal["memcheck", "racecheck", "synccheck", "initcheck"]
TOOLS: Final[tuple[Tool, ...]] = ("memcheck", "racecheck", "synccheck", "initcheck")
_LIMIT_S: Final = 15.0
"""Of each tool. On an H200, 28 honest and bad kernels took 1 to 5 s with all tools at once, but for deadlocks."""
_PADDING_BYTES: Final = 1 << 16
"""Left free behind each allocation, so that the next one is not read by mistake unseen."""
_MOST: Final = 50
_SOURCE: Final = "kernel.cu"
# What racecheck does not follow, or not in every release: barriers in memory, bulk copies, clusters, warp groups, and
# whatever orders accesses but a barrier that all threads wait at. On an H200 it had an `Error` for 7 of 93 right
# concurrent kernels: flags in shared memory, set and read behind fences or by release and acquire, and barriers that
# a warp only arrives at.
_BEYOND_RACECHECK: Final = re.compile(
    r"\b(mbarrier|cp\.async\.bulk|cp\.reduce\.async|wgmma|tcgen05|barrier\.cluster|mapa|st\.async|setmaxnreg"
    r"|membar|fence|(bar|barrier)(\.cta)?\.arrive|(ld|st|atom|red)\.([\w.]+\.)?(acquire|release|acq_rel|volatile))\b"
)


@dataclass(frozen=True)
class ToolFinding:
    """One thing that a tool saw."""

    tool: Tool
    fault: Fault
    run: int | None
    """Index of the run, where the address tells it."""
    certain: bool
    """Whether an honest kernel cannot have it."""


@dataclass(frozen=True)
class Checked:
    """What all tools found, the certain first, and which of them could not look."""

    findings: tuple[ToolFinding, ...]
    unchecked: tuple[tuple[Tool, ToolMissingError], ...] = ()


class Sanitizer:
    """Checks on one GPU, all tools at the same time."""

    def __init__(self, tool_runner: ToolRunner) -> None:
        self._tool_runner = tool_runner

    def check(self, program: Program, runs: Sequence[PlanRun]) -> Checked:
        """Run `runs` under each tool. Raises ToolMissingError if none of them could look, InfrastructureError."""

        def checked(tool: Tool) -> list[ToolFinding] | ToolMissingError:
            watched = self._watched(tool, program, runs)
            found = list(parse_findings(tool, watched.report, watched.addresses, program, runs))
            return found if found or _is_whole(watched) else refusal(tool, watched)

        with ThreadPoolExecutor(len(TOOLS)) as pool:
            outcomes = list(zip(TOOLS, pool.map(checked, TOOLS), strict=True))
        unchecked = tuple((tool, outcome) for tool, outcome in outcomes if isinstance(outcome, ToolMissingError))
        if len(unchecked) == len(TOOLS):
            raise unchecked[0][1]
        findings = [one for _, outcome in outcomes if not isinstance(outcome, ToolMissingError) for one in outcome]
        return Checked(tuple(sorted(findings, key=lambda finding: not finding.certain)), unchecked)

    def _watched(self, tool: Tool, program: Program, runs: Sequence[PlanRun]) -> ToolRun:
        # Undefined memory must stay undefined for the tool that looks for its use.
        poison = None if tool == "initcheck" else runs[0].poison
        return self._tool_runner.watch("compute-sanitizer", options(tool), program, runs, poison, _LIMIT_S)


def options(tool: Tool) -> tuple[str, ...]:
    """The checker's arguments before the program's own."""
    own: Mapping[Tool, tuple[str, ...]] = {
        "memcheck": ("--padding", str(_PADDING_BYTES), "--report-api-errors", "no"),
        "racecheck": ("--racecheck-report", "analysis"),
        "synccheck": (),
        "initcheck": (),
    }
    common = ("--log-file", REPORT, "--show-backtrace", "no", "--print-limit", str(_MOST), "--target-processes")
    return ("--tool", tool, *common, "application-only", *own[tool])


def _is_whole(watched: ToolRun) -> bool:
    return "SUMMARY" in watched.report


def refusal(tool: Tool, watched: ToolRun) -> ToolMissingError:
    """Why there is no report."""
    if watched.timed_out:
        return ToolMissingError(f"{tool} was not done after {_LIMIT_S:g} s", "Nothing needs to be done.")
    said = watched.said.splitlines()
    return ToolMissingError(
        f"compute-sanitizer gave no report: {said[-1][:300] if said else 'it printed nothing'}", "Run `assay doctor`."
    )


def parse_findings(
    tool: Tool, report: str, addresses: Sequence[Sequence[int]], program: Program, runs: Sequence[PlanRun]
) -> Iterator[ToolFinding]:
    """The findings in a report; `addresses` are of each run's buffers, in their order."""
    memory = _Memory(addresses, runs)
    kernels = frozenset(_plain(entry.name) for entry in program.entries)
    follows = _BEYOND_RACECHECK.search(program.ptx) is None
    for title, details in _blocks(report):
        text = "\n".join((title, *details))
        if found := _ACCESS.search(title):
            yield _access(tool, found, text, memory, _where(text, kernels))
        elif stopped := _STOPPED.get(title.lower()):
            # Where it stopped is told inexactly: some instructions further, or in the library's function.
            where = {**_where(text, kernels), "line": None}
            fault = Fault.model_validate({"kind": stopped[0], "message": stopped[1], **where})
            yield ToolFinding(tool, fault, None, True)
        elif _UNDEFINED.search(title):
            yield _undefined(tool, text, memory, _where(text, kernels))
        elif found := _RACE.search(title):
            yield _race(tool, found, details, follows, kernels)
        elif found := _BARRIER.search(title):
            fault = Fault(kind="divergent_barrier", message=_barrier(found), **_where(text, kernels))
            yield ToolFinding(tool, fault, None, False)


_PLACE: Final = r"(?P<function>.+?)\+0x[0-9a-f]+(?: in (?P<file>\S+):(?P<line>\d+))?"
_ACCESS: Final = re.compile(r"Invalid __(\w+)__ (read|write|atomic)\b.*? of size (\d+)")
_UNDEFINED: Final = re.compile(r"Uninitialized __(\w+)__ memory read of size (\d+)")
_RACE: Final = re.compile(
    rf"^(?P<level>Error|Warning): (?:\([^)]*\) )?Race reported between (?P<act>Read|Write|Atomic) access at {_PLACE}"
)
_WITH: Final = re.compile(rf"^and (?P<act>Read|Write|Atomic) access at {_PLACE}")
_BARRIER: Final = re.compile(r"Barrier error detected\.\s*(.*)")
_STOPPED: Final = {
    "trace/breakpoint trap": ("trap", "executed a trap"),
    "warp assert": ("assert", "failed an assertion"),
}
_ADDRESS: Final = re.compile(r"(?:Address|Access (?:at|to)) 0x([0-9a-f]+)(?: is (misaligned|out of bounds))?")
_THREAD: Final = re.compile(r"by thread \(([^)]*)\) in block \(([^)]*)\)")
_AT: Final = re.compile(rf"^at {_PLACE}", re.MULTILINE)
_VERBS: Final = {"read": "read", "write": "wrote", "atomic": "changed"}
_ACTS: Final = {"read": "reads", "write": "writes", "atomic": "atomically changes"}


def _blocks(report: str) -> Iterator[tuple[str, list[str]]]:
    """Title and details of each error: details are indented behind the prefix."""
    title, details = "", list[str]()
    for line in report.splitlines():
        if not line.startswith("========="):
            continue
        text = line.lstrip("=")
        if text.startswith("     "):
            details.append(text.strip())
            continue
        if title:
            yield title, details
        title, details = text.strip(), []
    if title:
        yield title, details


def _triple(text: str) -> tuple[int, int, int]:
    x, y, z = (int(number) for number in text.split(","))
    return x, y, z


def _plain(function: str) -> str:
    """A function's name without result and parameters, which the tool writes in its own way."""
    return re.sub(r"(?<!^)\(.*", "", function.removeprefix("void "))


def _place(found: re.Match[str], kernels: frozenset[str]) -> dict[str, object]:
    """Kernel and line, as far as they are known and the submission's own."""
    place: dict[str, object] = {}
    if (name := _plain(found["function"])) in kernels:
        place["kernel"] = name
    elif len(kernels) == 1:  # in a function that it calls
        place["kernel"] = next(iter(kernels))
    if found["file"] and PurePath(found["file"]).name == _SOURCE:
        place["line"] = int(found["line"])
    return place


def _where(text: str, kernels: frozenset[str]) -> dict[str, object]:
    """Kernel, line, thread and block, as far as the text has them."""
    at, who = _AT.search(text), _THREAD.search(text)
    place = _place(at, kernels) if at else {}
    return {**place, "thread": _triple(who[1]), "block": _triple(who[2])} if who else place


class _Memory:
    """What lies at an address."""

    def __init__(self, addresses: Sequence[Sequence[int]], runs: Sequence[PlanRun]) -> None:
        self._places = [
            (address, index, buffer)
            for index, (places, run) in enumerate(zip(addresses, runs, strict=False))
            for address, buffer in zip(places, run.buffers, strict=False)
        ]

    def nearest(self, address: int) -> tuple[int, str, int, int] | None:
        """Run, name, element (possibly outside) and count of elements of the buffer that was probably meant."""
        if not self._places:
            return None
        start, run, buffer = min(
            self._places, key=lambda place: max(place[0] - address, address - place[0] - place[2].size_bytes + 1, 0)
        )
        if not start - _PADDING_BYTES <= address < start + buffer.size_bytes + _PADDING_BYTES:
            return None
        count = buffer.size_bytes // buffer.item_bytes
        return run, buffer.name, (address - start) // buffer.item_bytes, count


def _access(tool: Tool, title: re.Match[str], text: str, memory: _Memory, where: Mapping[str, object]) -> ToolFinding:
    space, verb, size = title[1], _VERBS[title[2]], int(title[3])
    found = _ADDRESS.search(text)
    address = int(found[1], 16) if found else 0
    misaligned = found is not None and found[2] == "misaligned"
    kind = "misaligned" if misaligned else "out_of_bounds"
    run, buffer, element = None, None, None
    if space == "shared":
        buffer, element = "shared memory", address
        message = f"{verb} shared memory[{address}], past the end"
    elif space == "local":
        message = f"{verb} address 0x{address:x}, which is outside of the thread's local memory"
    elif address < 1 << 16:
        kind, message = "null", f"{verb} address 0x{address:x}, a null pointer"
    elif near := memory.nearest(address):
        run, buffer, element, count = near
        message = f"{verb} {buffer}[{element}]{_beyond(element, count)}"
    else:
        message = f"{verb} address 0x{address:x}, which belongs to no buffer"
    if misaligned:
        message = message.partition(",")[0] + f", {address % size} bytes behind a multiple of {size}"
    fault = Fault.model_validate({"kind": kind, "message": message, "buffer": buffer, "element": element, **where})
    return ToolFinding(tool, fault, run, True)


def _beyond(element: int, count: int) -> str:
    if element < 0:
        return ", before its start"
    if element == count:
        return ", one past the end"
    return f", {element - count + 1} past the end" if element > count else ", which reaches past the end"


def _undefined(tool: Tool, text: str, memory: _Memory, where: Mapping[str, object]) -> ToolFinding:
    found = _ADDRESS.search(text)
    near = memory.nearest(int(found[1], 16)) if found else None
    what = f"{near[1]}[{near[2]}]" if near else "memory"
    fault = Fault.model_validate(
        {
            "kind": "undefined_read",
            "message": f"reads {what}{_on(where)}, which was never written",
            "buffer": near[1] if near else None,
            "element": near[2] if near else None,
            **where,
        }
    )
    return ToolFinding(tool, fault, near[0] if near else None, False)


def _race(
    tool: Tool, title: re.Match[str], details: Sequence[str], follows: bool, kernels: frozenset[str]
) -> ToolFinding:
    here = _place(title, kernels)
    message = f"{_ACTS[title['act'].lower()]} shared memory{_on(here)}"
    with_ = next((found for line in details if (found := _WITH.search(line))), None)
    if with_:
        there = _on(_place(with_, kernels))
        message += f", and another thread of the same block {_ACTS[with_['act'].lower()]} it{there}"
    message += ", with nothing in between that orders the two"
    fault = Fault.model_validate({"kind": "race", "message": message, "buffer": "shared memory", **here})
    return ToolFinding(tool, fault, None, follows and title["level"] == "Error")


def _on(place: Mapping[str, object]) -> str:
    return f" on line {place['line']}" if "line" in place else ""


def _barrier(title: re.Match[str]) -> str:
    return f"waited at a barrier that other threads do not reach ({title[1].strip().rstrip('.').lower()})"
