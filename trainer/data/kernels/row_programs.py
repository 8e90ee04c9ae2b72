"""Reductions over rows, and what follows from them: a thread a row, a block a row, a warp a row."""

from dataclasses import dataclass
from typing import Final, Literal

from common.contract import Status
from trainer.data.kernels.family import Family, Shapes, arguments, parameters
from trainer.data.kernels.style import Flaw, Style

_WRONG, _BAD_ACCESS = Status.INCORRECT, Status.RUNTIME_ERROR
_SIZES: Final = ("n0", "n1")


@dataclass(frozen=True)
class _Reduction:
    """A value of row `i`, made of a term for each column `j`."""

    name: str
    term: str
    """C, over the tensors and earlier values."""
    kind: Literal["sum", "max", "min"] = "sum"
    after: str = ""
    """C: what becomes of it, over its name."""

    @property
    def start(self) -> str:
        return {"sum": "0.0f", "max": "-INFINITY", "min": "INFINITY"}[self.kind]

    def joined(self, other: str, name: str = "") -> str:
        """The statement that takes in another value."""
        name = name or self.name
        if self.kind == "sum":
            return f"{name} += {other};"
        return f"{name} = f{self.kind}f({name}, {other});"

    def lines_after(self) -> list[str]:
        """What follows when it is complete."""
        return [f"{self.name} = {self.after};"] if self.after else []


@dataclass(frozen=True)
class _Program:
    name: str
    title: str
    expression: str
    reductions: tuple[_Reduction, ...]
    mistake: tuple[str, str]
    """A part of the text, and what is written in its place by mistake."""
    result: str = ""
    """C: the answer of the row."""
    element: str = ""
    """C: or the answer of column `j`."""
    tensors: tuple[str, ...] = ("x",)

    def shapes(self) -> tuple[Shapes, ...]:
        """Of `row` the one extent of a row, of others that of a table."""
        return tuple(
            {name: (columns,) if name == "row" else (rows, columns) for name in self.tensors}
            for rows, columns in ((60, 100), (500, 301), (129, 65))
        )

    def head(self, grid: str, block: str) -> str:
        """Launch line and signature."""
        return (
            f"// assay: launch KERNEL grid=({grid}) block=({block}) args=({arguments(self.tensors, _SIZES)})\n"
            f"__global__ void KERNEL({parameters(self.tensors, _SIZES)})\n"
        )


def _indented(lines: list[str], by: int) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in lines)


def _loop(start: str, step: str, statement: str) -> list[str]:
    return [f"for (int j = {start}; j < n1; {step}) {{", f"    {statement}", "}"]


def _told(program: _Program, flaws: tuple[Flaw, ...]) -> tuple[Flaw, ...]:
    """Those that make a wrong kernel. What is replaced is the first reduction, and where that is only a shift that
    the answer does not hang on, as the maximum of a softmax, one that is of a part of the row does as well.
    """
    if not any("- top" in one.term for one in program.reductions):
        return flaws
    return tuple(flaw for flaw in flaws if flaw.name not in _OF_A_PART)


_OF_A_PART: Final = ("last column left out", "most of the block left out", "starts at the row, not the lane")


def _slips(program: _Program) -> tuple[Flaw, ...]:
    return (Flaw("wrong formula", *program.mistake, _WRONG),)


def _thread(program: _Program) -> Style:
    lines: list[str] = []
    for one in program.reductions:
        lines += [f"float {one.name} = {one.start};", *_loop("0", "j++", one.joined(one.term)), *one.lines_after()]
    lines += (
        [f"out[i] = {program.result};"]
        if program.result
        else _loop("0", "j++", f"out[i * n1 + j] = {program.element};")
    )
    text = (
        f"{program.head('ceil_div(n0, 256)', '256')}{{\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        f"    if (i < n0) {{\n{_indented(lines, 8)}    }}\n}}\n"
    )
    flaws = (
        *_slips(program),
        Flaw("no guard", "if (i < n0) ", "", _BAD_ACCESS),
        Flaw("last column left out", "j < n1;", "j < n1 - 1;", _WRONG),
        Flaw("bound off by one", "j < n1;", "j <= n1;", _BAD_ACCESS),
    )
    return Style(program.name, "a thread a row", text, _told(program, flaws))


def _block(program: _Program) -> Style:
    lines: list[str] = []
    for one in program.reductions:
        lines += [
            f"float {one.name} = {one.start};",
            *_loop("threadIdx.x", "j += blockDim.x", one.joined(one.term)),
            f"part[threadIdx.x] = {one.name};",
            "__syncthreads();",
            "for (int half = 128; half > 0; half /= 2) {",
            "    if (threadIdx.x < half) {",
            f"        {one.joined('part[threadIdx.x + half]', 'part[threadIdx.x]')}",
            "    }",
            "    __syncthreads();",
            "}",
            f"{one.name} = part[0];",
            "__syncthreads();",
            *one.lines_after(),
        ]
    lines += (
        ["if (threadIdx.x == 0) {", f"    out[i] = {program.result};", "}"]
        if program.result
        else _loop("threadIdx.x", "j += blockDim.x", f"out[i * n1 + j] = {program.element};")
    )
    text = (
        f"{program.head('n0', '256')}{{\n    __shared__ float part[256];\n    int i = blockIdx.x;\n"
        f"{_indented(lines, 4)}}}\n"
    )
    flaws = (
        *_slips(program),
        Flaw("most of the block left out", "half = 128", "half = 16", _WRONG),
        Flaw("barrier missing", "        __syncthreads();\n    }\n", "    }\n", _WRONG),
        Flaw("grid of one block", "grid=(n0)", "grid=(1)", _WRONG),
    )
    return Style(program.name, "a block a row", text, _told(program, flaws))


def _warp(program: _Program) -> Style:
    lines: list[str] = []
    for one in program.reductions:
        lines += [
            f"float {one.name} = {one.start};",
            *_loop("threadIdx.x", "j += 32", one.joined(one.term)),
            "for (int mask = 16; mask > 0; mask /= 2) {",
            f"    {one.joined(f'__shfl_xor_sync(0xffffffff, {one.name}, mask)')}",
            "}",
            *one.lines_after(),
        ]
    lines += (
        ["if (threadIdx.x == 0) {", f"    out[i] = {program.result};", "}"]
        if program.result
        else _loop("threadIdx.x", "j += 32", f"out[i * n1 + j] = {program.element};")
    )
    text = (
        f"{program.head('ceil_div(n0, 8)', '32, 8')}{{\n    int i = blockIdx.x * 8 + threadIdx.y;\n"
        f"    if (i >= n0) return;\n{_indented(lines, 4)}}}\n"
    )
    flaws = (
        *_slips(program),
        Flaw("no guard", "    if (i >= n0) return;\n", "", _BAD_ACCESS),
        Flaw("half of the warp left out", "mask = 16", "mask = 8", _WRONG),
        Flaw("starts at the row, not the lane", "int j = threadIdx.x;", "int j = threadIdx.y;", _WRONG),
    )
    return Style(program.name, "a warp a row", text, _told(program, flaws))


_X: Final = "x[i * n1 + j]"
_TOP: Final = _Reduction("top", _X, "max")
_MEAN: Final = _Reduction("mean", _X, after="mean / n1")
_EXPS: Final = _Reduction("sum", f"expf({_X} - top)")

_PROGRAMS: Final = (
    _Program("row_max", "The largest of each row", "torch.amax(x, 1)", (_TOP,), ("fmaxf", "fminf"), "top"),
    _Program(
        "row_mean",
        "The mean of each row",
        "torch.mean(x, 1)",
        (_Reduction("sum", _X),),
        ("sum / n1", "sum / n0"),
        "sum / n1",
    ),
    _Program(
        "row_absolute_sum",
        "The sum of absolute values of each row",
        "torch.sum(torch.abs(x), 1)",
        (_Reduction("sum", f"fabsf({_X})"),),
        ("fabsf(", "("),
        "sum",
    ),
    _Program(
        "row_norm",
        "The 2-norm of each row",
        "torch.sqrt(torch.sum(torch.square(x), 1))",
        (_Reduction("sum", f"{_X} * {_X}"),),
        ("sqrtf(sum)", "sum"),
        "sqrtf(sum)",
    ),
    _Program(
        "row_dot",
        "The dot product of each pair of rows",
        "torch.sum(a * b, 1)",
        (_Reduction("sum", "a[i * n1 + j] * b[i * n1 + j]"),),
        ("] * b[", "] + b["),
        "sum",
        tensors=("a", "b"),
    ),
    _Program(
        "row_distance",
        "The largest difference of each pair of rows",
        "torch.amax(torch.abs(a - b), 1)",
        (_Reduction("top", "fabsf(a[i * n1 + j] - b[i * n1 + j])", "max"),),
        ("fabsf(", "("),
        "top",
        tensors=("a", "b"),
    ),
    _Program(
        "matrix_vector",
        "A matrix times a vector",
        "torch.mv(x, row)",
        (_Reduction("sum", f"{_X} * row[j]"),),
        (" * row[j]", " * row[i]"),
        "sum",
        tensors=("x", "row"),
    ),
    _Program(
        "row_logsumexp",
        "The logarithm of the sum of exponentials of each row",
        "torch.logsumexp(x, 1)",
        (_TOP, _EXPS),
        ("top + logf(sum)", "logf(sum)"),
        "top + logf(sum)",
    ),
    _Program(
        "row_variance",
        "The variance of each row",
        "torch.var(x, 1, correction=0)",
        (_MEAN, _Reduction("sum", f"({_X} - mean) * ({_X} - mean)")),
        ("sum / n1", "sum / n0"),
        "sum / n1",
    ),
    _Program(
        "row_range",
        "The range of each row",
        "torch.amax(x, 1) - torch.amin(x, 1)",
        (_TOP, _Reduction("least", _X, "min")),
        ("top - least", "top"),
        "top - least",
    ),
    _Program(
        "log_softmax",
        "Log-softmax of each row",
        "F.log_softmax(x, 1)",
        (_TOP, _EXPS),
        (" - logf(sum)", " - sum"),
        element=f"{_X} - top - logf(sum)",
    ),
    _Program(
        "scaled_softmax",
        "Softmax of each row divided by 8, fused",
        "torch.softmax(x * 0.125, 1)",
        (_TOP, _Reduction("sum", f"expf(0.125f * ({_X} - top))")),
        ("0.125f", "0.25f"),
        element=f"expf(0.125f * ({_X} - top)) / sum",
    ),
    _Program(
        "center_rows",
        "Each row without its mean",
        "x - torch.mean(x, 1, keepdim=True)",
        (_MEAN,),
        ("mean / n1", "mean / n0"),
        element=f"{_X} - mean",
    ),
    _Program(
        "normalize_rows",
        "Each row divided by its 2-norm",
        "x / torch.sqrt(torch.sum(torch.square(x), 1, keepdim=True) + 1e-6)",
        (_Reduction("sum", f"{_X} * {_X}"),),
        ("rsqrtf(", "sqrtf("),
        element=f"{_X} * rsqrtf(sum + 1e-6f)",
    ),
    _Program(
        "standardize_rows",
        "Layer norm without weights",
        "(x - torch.mean(x, 1, keepdim=True)) * torch.rsqrt(torch.var(x, 1, correction=0, keepdim=True) + 1e-3)",
        (_MEAN, _Reduction("sum", f"({_X} - mean) * ({_X} - mean)")),
        ("rsqrtf(sum / n1 + ", "rsqrtf(sum + "),
        element=f"({_X} - mean) * rsqrtf(sum / n1 + 1e-3f)",
    ),
    _Program(
        "residual_rms_norm",
        "A residual and RMS norm, fused",
        "(a + b) * torch.rsqrt(torch.mean(torch.square(a + b), 1, keepdim=True) + 1e-3)",
        (_Reduction("sum", "(a[i * n1 + j] + b[i * n1 + j]) * (a[i * n1 + j] + b[i * n1 + j])"),),
        ("sum / n1", "sum"),
        element="(a[i * n1 + j] + b[i * n1 + j]) * rsqrtf(sum / n1 + 1e-3f)",
        tensors=("a", "b"),
    ),
)

FAMILIES: Final = tuple(
    Family(
        program.name,
        program.title,
        program.expression,
        program.shapes(),
        ("n0",) if program.result else ("n0", "n1"),
        (_thread(program), _block(program), _warp(program)),
    )
    for program in _PROGRAMS
)
