"""compute-sanitizer: what NVIDIA's checker finds in runs of a plan, as facts in the simulator's words.

| tool | finds | what it is worth here |
| --- | --- | --- |
| memcheck | accesses outside of an allocation, or misaligned | certain |
| racecheck | hazards in shared memory, by bytes and the two threads | certain only where it can follow the barriers |
| synccheck | barriers that a part of the threads does not reach | a hint: hardware lets threads leave early |
| initcheck | reads of global memory that nothing has written | a hint: what is read may not matter |

Source: Compute Sanitizer User Manual, "Memcheck", "Racecheck", "Initcheck" and "Synccheck Tool".
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from common.contract import Fault, OtherThread
from evaluator.backends.backend import PlanRun, Program
from evaluator.backends.gpu.instruments import REPORT, NoInstrument, Observatory, Watched

Tool: TypeAlias = Literal["memcheck", "racecheck", "synccheck", "initcheck"]
TOOLS: Final[tuple[Tool, ...]] = ("memcheck", "racecheck", "synccheck", "initcheck")
_LIMIT_S: Final = 40.0
_PADDING_BYTES: Final = 1 << 16
"""Left free behind each allocation, so that the next one is not read by mistake unseen."""
_MOST: Final = 50
# What racecheck does not follow, or not in every release: barriers in memory, bulk copies, clusters, warp groups.
_BEYOND_RACECHECK: Final = re.compile(
    r"\b(mbarrier|cp\.async\.bulk|cp\.reduce\.async|wgmma|tcgen05|barrier\.cluster|mapa|st\.async|setmaxnreg)\b"
)


@dataclass(frozen=True)
class Finding:
    """One thing that a tool saw."""

    tool: Tool
    fault: Fault
    run: int | None
    """Index of the run, where the address tells it."""
    certain: bool
    """Whether an honest kernel cannot have it."""


class Sanitizer:
    """Checks on one GPU, all tools at the same time."""

    def __init__(self, observatory: Observatory) -> None:
        self._observatory = observatory

    def check(self, program: Program, runs: Sequence[PlanRun]) -> tuple[Finding, ...]:
        """What all tools find in these runs, the certain first. Raises NoInstrument, InfrastructureFault."""

        def checked(tool: Tool) -> list[Finding]:
            watched = self._watched(tool, program, runs)
            if not watched.report.strip():
                raise refusal(watched)
            return list(parse(tool, watched.report, watched.addresses, program, runs))

        with ThreadPoolExecutor(len(TOOLS)) as pool:
            found = [finding for findings in pool.map(checked, TOOLS) for finding in findings]
        return tuple(sorted(found, key=lambda finding: not finding.certain))

    def _watched(self, tool: Tool, program: Program, runs: Sequence[PlanRun]) -> Watched:
        # Undefined memory must stay undefined for the tool that looks for its use.
        poison = None if tool == "initcheck" else runs[0].poison
        return self._observatory.watch("compute-sanitizer", options(tool), program, runs, poison, _LIMIT_S)


def options(tool: Tool) -> tuple[str, ...]:
    """The checker's arguments before the program's own."""
    own: Mapping[Tool, tuple[str, ...]] = {
        "memcheck": ("--padding", str(_PADDING_BYTES), "--report-api-errors", "no"),
        "racecheck": ("--racecheck-report", "hazard"),
        "synccheck": (),
        "initcheck": (),
    }
    common = ("--log-file", REPORT, "--show-backtrace", "no", "--print-limit", str(_MOST), "--target-processes")
    return ("--tool", tool, *common, "application-only", *own[tool])


def refusal(watched: Watched) -> NoInstrument:
    """Why there is no report."""
    if watched.timed_out:
        return NoInstrument(f"compute-sanitizer was not done after {_LIMIT_S:g} s", "Nothing needs to be done.")
    said = watched.said.splitlines()
    return NoInstrument(
        f"compute-sanitizer gave no report: {said[-1][:300] if said else 'it left no word'}", "Run `assay doctor`."
    )


def parse(
    tool: Tool, report: str, addresses: Sequence[Sequence[int]], program: Program, runs: Sequence[PlanRun]
) -> Iterator[Finding]:
    """The findings in a report; `addresses` are of each run's buffers, in their order."""
    place = _Memory(addresses, runs)
    kernels = {entry.symbol: entry.name for entry in program.entries}
    kernels |= {name: name for name in kernels.values()}
    follows = _BEYOND_RACECHECK.search(program.ptx) is None
    for title, details in _blocks(report):
        text = "\n".join((title, *details))
        if found := _ACCESS.search(title):
            yield _access(tool, found, text, place)
        elif found := _UNDEFINED.search(title):
            yield _undefined(tool, text, place)
        elif found := _HAZARD.search(title):
            yield _race(tool, found, text, follows)
        elif found := _BARRIER.search(title):
            yield Finding(tool, Fault(kind="divergent_barrier", message=_barrier(found), **_where(text)), None, False)


_ACCESS: Final = re.compile(r"Invalid __(\w+)__ (read|write|atomic)\b.*? of size (\d+)")
_UNDEFINED: Final = re.compile(r"Uninitialized __(\w+)__ memory read of size (\d+)")
_HAZARD: Final = re.compile(r"(RAW|WAR|WAW) hazard detected at __shared__ 0x([0-9a-f]+) in block \(([^)]*)\)")
_BARRIER: Final = re.compile(r"Barrier error detected\.\s*(.*)")
_ADDRESS: Final = re.compile(r"(?:Address|Access (?:at|to)) 0x([0-9a-f]+)(?: is (misaligned|out of bounds))?")
_THREAD: Final = re.compile(r"by thread \(([^)]*)\) in block \(([^)]*)\)")
_AT: Final = re.compile(r"\bat (?:0x[0-9a-f]+ in )?(?:(.*?)\+0x[0-9a-f]+ in )?[^\s:]+:(\d+)")
_PARTY: Final = re.compile(r"(Read|Write|Atomic) Thread \(([^)]*)\) at 0x[0-9a-f]+(?: in [^\s:]+:(\d+))?(?::(.*))?")
_VALUES: Final = re.compile(r"Current Value : (\S+?),? Incoming Value : (\S+)")
_VERBS: Final = {"read": "read", "write": "wrote", "atomic": "changed"}


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


def _where(text: str) -> dict[str, object]:
    """Kernel, line, thread and block, as far as the text has them."""
    found: dict[str, object] = {}
    if at := _AT.search(text):
        found["line"] = int(at[2])
        if at[1]:
            found["kernel"] = re.sub(r"\(.*", "", at[1]).removeprefix("void ")
    if who := _THREAD.search(text):
        found |= {"thread": _triple(who[1]), "block": _triple(who[2])}
    return found


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


def _access(tool: Tool, title: re.Match[str], text: str, memory: _Memory) -> Finding:
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
    fault = Fault(kind=kind, message=message, buffer=buffer, element=element, **_where(text))
    return Finding(tool, fault, run, True)


def _beyond(element: int, count: int) -> str:
    if element < 0:
        return ", before its start"
    if element == count:
        return ", one past the end"
    return f", {element - count + 1} past the end" if element > count else ", which reaches past the end"


def _undefined(tool: Tool, text: str, memory: _Memory) -> Finding:
    found = _ADDRESS.search(text)
    near = memory.nearest(int(found[1], 16)) if found else None
    what = f"{near[1]}[{near[2]}]" if near else "memory"
    fault = Fault(
        kind="undefined_read",
        message=f"read {what} before anything was written there",
        buffer=near[1] if near else None,
        element=near[2] if near else None,
        **_where(text),
    )
    return Finding(tool, fault, near[0] if near else None, False)


def _race(tool: Tool, title: re.Match[str], text: str, follows: bool) -> Finding:
    block = _triple(title[3])
    parties = [_Party(m[1].lower(), _triple(m[2]), int(m[3]) if m[3] else None, m[4]) for m in _PARTY.finditer(text)]
    values = _VALUES.search(text)
    harmless = values is not None and values[1] == values[2]
    if len(parties) < 2:
        fault = Fault(kind="race", message=f"raced for shared memory[{int(title[2], 16)}]", block=block)
        return Finding(tool, fault, None, False)
    first, second = parties[:2]
    other = OtherThread(thread=second.thread, block=block, line=second.line, act=second.act)
    fault = Fault(
        kind="race",
        message=f"{_VERBS[first.act]} shared memory[{int(title[2], 16)}], which thread "
        f"{_shown(second.thread)} of the block {_VERBS[second.act]} with no barrier between"
        + (f" (line {second.line})" if second.line else ""),
        kernel=re.sub(r"\(.*", "", first.kernel).removeprefix("void ") if first.kernel else None,
        line=first.line,
        buffer="shared memory",
        element=int(title[2], 16),
        thread=first.thread,
        block=block,
        other=other,
    )
    return Finding(tool, fault, None, follows and not harmless)


@dataclass(frozen=True)
class _Party:
    act: str
    thread: tuple[int, int, int]
    line: int | None
    kernel: str | None


def _shown(index: tuple[int, int, int]) -> str:
    return str(index[0]) if index[1] == index[2] == 0 else str(index)


def _barrier(title: re.Match[str]) -> str:
    return f"waited at a barrier that other threads do not reach ({title[1].strip().rstrip('.').lower()})"
