"""A stand-alone CUDA program that shows a fault: the submission's own text, its launches as host code, one input.

What it prints and how it ends: 0 where everything came out right, 1 where it is wrong (the worst elements, writes
outside of a buffer, changed inputs, what CUDA reports, a kernel that does not end), 2 where there is no GPU for it.
`reproduction.cu` holds the part of its host code that is always the same.
"""

import math
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np

from common.contract import Smallest
from common.contract.correctness import Content
from common.launch_directives import as_directives
from common.launch_plan import Copy, Launch, RawArgument, Step
from common.wire import DType
from evaluator.backends.session import BufferFill, Entry, KernelLaunch, Packed, Parameter, Pointer
from evaluator.errors import Ruling, UsageError
from evaluator.problems.arrays import widened
from evaluator.problems.problem import C_TYPES, Arrays, Expected
from evaluator.stages.compile.kernel_names import spelling
from evaluator.stages.launch.arguments import takes_number
from evaluator.stages.launch.checked_plan import BufferFacts, CheckedPlan, SizedPlan
from evaluator.stages.verify.shrinking import candidate_of, tolerance_of

_MAX_INLINE: Final = 1 << 16
_ALWAYS_INLINE: Final = 64
_RACE_RUNS: Final = 100
_HOST_HALF: Final = Path(__file__).with_suffix(".cu")
# What nvcc takes for CUDA and a shell for one word; any other name could end the comment that the command is in.
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*\.cu")
_UNSPELLABLE: Final = re.compile(r"[{}'$]|\blambda\b|__nv_dl_wrapper_t|\.\.\.")


@dataclass(frozen=True)
class ReproductionInput:
    """What a reproduction is about."""

    source: str
    checked_plan: CheckedPlan
    entries: Sequence[Entry]
    flags: tuple[str, ...]
    """nvcc flags that the caller chose."""
    smallest: Smallest
    file_name: str = "repro.cu"
    """Of the file that the program will be in."""


def reproduction(case: ReproductionInput) -> str:
    """The text of the program. Raises UsageError where no such program can be written."""
    return _Writer(case).text()


class _Writer:
    """One program."""

    def __init__(self, case: ReproductionInput) -> None:
        self.case = case
        self.smallest, self.checked_plan = case.smallest, case.checked_plan
        self.problem = self.checked_plan.problem
        self.candidate = candidate_of(self.problem, self.smallest)
        if any(step for step in self.checked_plan.steps if not _plain(step)):
            raise UsageError(
                "What host code launched can have no program: it has structs or addresses within buffers.",
                "Call its own entry function with the sizes that the verdict names.",
            )
        sized_plan = self.checked_plan.at(self.smallest.sizes, scalars=self.smallest.scalars)
        if isinstance(sized_plan, Ruling):
            raise UsageError(f"The plan does not fit at these sizes: {sized_plan.message}", sized_plan.hint)
        self.sized_plan: SizedPlan = sized_plan
        self.inputs: Arrays = self.candidate.draw(self.problem)
        self.expected: Mapping[str, Expected] = self.problem.oracle(
            self.inputs, self.smallest.sizes, **self.smallest.scalars
        )

    def text(self) -> str:
        source = self.case.source if self.case.source.endswith("\n") else f"{self.case.source}\n"
        renamed = re.search(r"\bmain\s*\(", source) is not None
        before = "#define main submission_main  // this file has its own\n" if renamed else ""
        after = "#undef main\n" if renamed else ""
        head = "".join(self._head(source))
        submitted = f"{before}// What was submitted; the next line is its line 1.\n{source}{after}"
        data = "".join(f"{line}\n" for line in self._data())
        main = "".join(f"{line}\n" for line in self._main())
        return f"{head}{submitted}\n{_HOST_HALF.read_text(encoding='utf-8')}\n{data}\n{main}"

    # --- what stands above the submission --------------------------------------------------------------------------

    def _head(self, source: str) -> Iterator[str]:
        flags = " ".join(self.case.flags)
        arch = self.checked_plan.arch if self.checked_plan.arch.endswith("a") else "native"
        standard = "" if "-std=" in flags else "-std=c++17 "
        file = self.case.file_name if _PLAIN_NAME.fullmatch(self.case.file_name) else "repro.cu"
        made = file.removesuffix(".cu")
        yield f"// problem: {self.problem.id}\n//\n"
        for line in self.smallest.message.splitlines():
            yield f"// {line}\n".replace("\\\n", "\\ \n")  # a backslash at the end would take the next line with it
        yield "//\n"
        yield f"//     nvcc {standard}-O3 -lineinfo -arch={arch}{' ' + flags if flags else ''} -o {made} {file}\n"
        yield f"//     ./{made}\n//     compute-sanitizer ./{made} --bare\n//\n"
        yield "// Exit code 0: right; 1: wrong; 2: no GPU for it. A GPU shows few races, and few reads behind\n"
        yield "// a buffer: compute-sanitizer sees such reads, and with --tool racecheck races in shared memory.\n"
        if "// assay:" not in source:
            yield f"//\n{as_directives(self.checked_plan.plan)}"
        yield "\n#include <cmath>\n#include <cstdio>\n#include <cstdlib>\n#include <cstring>\n#include <ctime>\n\n"
        dtypes = {buffer.dtype for buffer in self.sized_plan.buffers}
        yield "#include <cuda_fp16.h>\n" if DType.FLOAT16 in dtypes else ""
        yield "#include <cuda_bf16.h>\n" if DType.BFLOAT16 in dtypes else ""
        yield "#include <cuda_runtime.h>\n\n"

    # --- contents --------------------------------------------------------------------------------------------------

    def _data(self) -> Iterator[str]:
        for name, content in self.smallest.inputs.items():
            if self._inline(name, content):
                yield self._array(f"input_{name}", self.inputs[name])
        for buffer in self._outputs():
            if self._whole(buffer):
                expected, allowed = self._wanted(buffer)
                yield self._array(f"expected_{buffer.name}", expected)
                yield self._array(f"allowed_{buffer.name}", allowed)

    def _inline(self, name: str, content: Content) -> bool:
        count = self.inputs[name].size
        if content == "drawn" and count > _MAX_INLINE:
            raise UsageError(
                f"The smallest input that shows it has {count} drawn elements in {name}: too many for a source file.",
                "Look longer for a smaller one (--shrink-s 30), or fix what can be seen at this size.",
            )
        return count <= _ALWAYS_INLINE or content == "drawn"

    def _outputs(self) -> list[BufferFacts]:
        return [buffer for buffer in self.sized_plan.buffers if buffer.role == "output"]

    def _whole(self, buffer: BufferFacts) -> bool:
        """Whether all of an output is checked; else its worst element alone."""
        return math.prod(buffer.shape) <= _MAX_INLINE

    def _wanted(self, buffer: BufferFacts) -> tuple[Any, Any]:
        expected, tolerance = self.expected[buffer.name], tolerance_of(self.problem, self.candidate)
        value = np.broadcast_to(np.asarray(expected.value), buffer.shape)
        return value, np.broadcast_to(np.asarray(tolerance.allowed(expected), np.float64), buffer.shape)

    @staticmethod
    def _array(name: str, values: Any) -> str:
        flat = widened(np.asarray(values)).reshape(-1)
        kind = "double" if flat.dtype.kind == "f" else "long long"
        if flat.dtype in (np.float16, np.float32):
            kind = "float"
        words = [_number(value, kind) for value in flat]
        lines, line = [], "   "
        for word in words:
            if len(line) + len(word) > 115:
                lines.append(line)
                line = "   "
            line += f" {word},"
        return "\n".join([f"static const {kind} {name}[{len(words)}] = {{", *lines, line, "};"])

    # --- main ------------------------------------------------------------------------------------------------------

    def _main(self) -> Iterator[str]:
        racing = self.smallest.fault is not None and self.smallest.fault.kind == "race"
        yield "int main(int argc, char** argv)"
        yield "{"
        yield "    repro_begin(argc, argv);"
        for buffer in self.sized_plan.buffers:
            count, kind = math.prod(buffer.shape), C_TYPES[buffer.dtype]
            extents = ", ".join(map(str, buffer.shape))
            yield f'    ReproBuffer {_named(buffer.name)}("{buffer.name}", {count}, sizeof({kind}));  // [{extents}]'
        yield f"    for (int run = 0; run < {_RACE_RUNS if racing else 2} && !repro_faults; ++run) {{"
        yield "        repro_mark = run % 2 ? 0xA7 : 0xFF;"
        for buffer in self.sized_plan.buffers:
            yield f"        {self._prepared(buffer)}"
        launches = [step for step in self.checked_plan.plan.steps if isinstance(step, Launch)]
        for step in self.sized_plan.steps:
            yield ""
            if isinstance(step, KernelLaunch):
                yield from (f"        {line}" for line in self._launch(step, launches.pop(0)))
            elif isinstance(step, BufferFill):
                pattern = ", ".join(map(str, step.pattern))
                yield f"        const unsigned char pattern_{step.buffer}[] = {{{pattern}}};"
                yield f"        {_named(step.buffer)}.fill(pattern_{step.buffer});"
            else:
                yield f"        {_named(step.target)}.copy_from({_named(step.source)});"
        yield ""
        yield from (f"        {_named(buffer.name)}.download();" for buffer in self.sized_plan.buffers)
        for buffer in self._outputs():
            yield f"        {self._check(buffer)}"
        yield "    }"
        last = "right this time; what a GPU does not show, compute-sanitizer may" if self.smallest.fault else "right"
        yield f'    return repro_end("{last}");'
        yield "}"

    def _prepared(self, buffer: BufferFacts) -> str:
        kind = C_TYPES[buffer.dtype]
        if buffer.role != "input":
            return f"{_named(buffer.name)}.poison(run % 2 ? 0x5B : 0xFF);"
        content = self.smallest.inputs[buffer.name]
        if self._inline(buffer.name, content):
            return f"{_named(buffer.name)}.give<{kind}>(input_{buffer.name});"
        number = get_args(Content).index(content)
        is_float = "true" if buffer.dtype.is_float else "false"
        return f"{_named(buffer.name)}.give_plain<{kind}>({number}, {is_float});  // {content}"

    def _check(self, buffer: BufferFacts) -> str:
        name, kind = buffer.name, C_TYPES[buffer.dtype]
        if self._whole(buffer):
            return f"{_named(name)}.check<{kind}>(expected_{name}, allowed_{name});"
        mismatch = self.smallest.mismatch
        index = mismatch.index if mismatch is not None and mismatch.output == name else (0,) * len(buffer.shape)
        flat = int(np.ravel_multi_index(index, buffer.shape))
        expected, allowed = (array.reshape(-1)[flat] for array in self._wanted(buffer))
        wanted = "double" if expected.dtype.kind == "f" else "long long"
        return (
            f"{_named(name)}.check_one<{kind}, {wanted}>({flat}, {_number(expected, wanted)}, "
            f"{_number(allowed, 'double')});"
        )

    def _launch(self, step: KernelLaunch, planned: Launch) -> Iterator[str]:
        entry = next(entry for entry in self.case.entries if entry.symbol == step.symbol)
        if _UNSPELLABLE.search(entry.name):
            raise UsageError(
                f"The kernel {entry.name} has no name that host code can write, so no program can launch it.",
                "Give what it is made from (a lambda, a local type) a name of its own.",
            )
        name, types = spelling(entry)
        overloaded = sum(spelling(other)[0] == name for other in self.case.entries) > 1
        kernel = f"static_cast<void (*)({', '.join(types)})>({name})" if overloaded else name
        grid, block = (f"dim3({', '.join(map(str, extents))})" for extents in (step.grid, step.block))
        arguments = [_argument(*pair) for pair in zip(step.arguments, entry.parameters, strict=True)]
        yield (
            as_directives(self.checked_plan.plan.model_copy(update={"temporaries": (), "steps": (planned,)}))
            .replace("// assay: ", "// ")
            .rstrip()
        )
        # Without asking for it a launch may have 48 KiB, static and dynamic together.
        if step.shared_bytes + self.checked_plan.static_shared_bytes.get(entry.name, 0) > 48 << 10:
            yield (
                f"repro_cuda(cudaFuncSetAttribute({kernel}, cudaFuncAttributeMaxDynamicSharedMemorySize, "
                f'{step.shared_bytes}), "shared memory");'
            )
        if not (overloaded or step.cooperative or step.cluster):
            shared = f", {step.shared_bytes}" if step.shared_bytes else ""
            yield f"{name}<<<{grid}, {block}{shared}>>>({', '.join(arguments)});"
        else:
            yield from self._launch_by_address(step, kernel, types, arguments, grid, block)
        yield f'repro_wait("{name}");'

    @staticmethod
    def _launch_by_address(
        step: KernelLaunch, kernel: str, types: Sequence[str], arguments: Sequence[str], grid: str, block: str
    ) -> Iterator[str]:
        """What `<<<>>>` has no words for: an overload, a cooperative launch, clusters."""
        yield "{"
        for number, (kind, argument) in enumerate(zip(types, arguments, strict=True)):
            yield f"    {kind} argument_{number} = {argument};"
        listed = ", ".join(f"(void*)&argument_{number}" for number in range(len(arguments)))
        yield f"    void* arguments[] = {{{listed or 'nullptr'}}};"
        yield "    cudaLaunchConfig_t config = {};"
        yield f"    config.gridDim = {grid};"
        yield f"    config.blockDim = {block};"
        yield f"    config.dynamicSmemBytes = {step.shared_bytes};"
        yield "    cudaLaunchAttribute attributes[2] = {};"
        if step.cooperative:
            yield "    attributes[config.numAttrs].id = cudaLaunchAttributeCooperative;"
            yield "    attributes[config.numAttrs++].val.cooperative = 1;"
        if step.cluster:
            yield "    attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;"
            for axis, blocks in zip("xyz", step.cluster, strict=True):
                yield f"    attributes[config.numAttrs].val.clusterDim.{axis} = {blocks};"
            yield "    ++config.numAttrs;"
        yield "    config.attrs = attributes;"
        yield f'    repro_cuda(cudaLaunchKernelExC(&config, (const void*){kernel}, arguments), "launch");'
        yield "}"


def _named(buffer: str) -> str:
    return f"buffer_{buffer}"


def _plain(step: Step) -> bool:
    """Whether a step needs neither bytes nor stretches of buffers to be said."""
    if isinstance(step, Launch):
        return not any(isinstance(argument, RawArgument) for argument in step.args)
    return step.size_bytes is None and (isinstance(step, Copy) or step.data is None)


def _argument(given: Pointer | bytes | Packed, parameter: Parameter) -> str:
    assert not isinstance(given, Packed)
    if isinstance(given, Pointer):
        return _named(given.buffer)
    if parameter.kind == "pointer":
        return "nullptr"
    taken = takes_number(parameter)
    assert taken is not None
    if not taken.is_float:
        number = int.from_bytes(given, "little", signed=not taken.value.startswith("u"))
        if parameter.size_bytes < 8:
            return f"{number}u" if taken is DType.UINT32 else str(number)
        return _number(number, "long long") if taken is DType.INT64 else f"{number}ULL"
    if taken is DType.BFLOAT16:
        (value,) = struct.unpack("<f", b"\0\0" + given)
        return f"__float2bfloat16({_number(value, 'float')})"
    (value,) = struct.unpack({2: "<e", 4: "<f", 8: "<d"}[len(given)], given)
    if taken is DType.FLOAT16:
        return f"__float2half({_number(value, 'float')})"
    return _number(value, "double" if taken is DType.FLOAT64 else "float")


def _number(value: Any, kind: str) -> str:
    """A literal of C++ that is this value to the bit."""
    if kind == "long long":
        number = int(value)
        return str(number) if abs(number) < 1 << 31 else f"{number}LL" if number != -(1 << 63) else "(-1LL << 63)"
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    shortest = repr(float(value)) if kind == "double" else str(np.float32(value))
    return shortest if kind == "double" else f"{shortest}f"
