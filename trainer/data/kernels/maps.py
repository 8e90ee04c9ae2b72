"""Element-wise operations, and those that only move elements: one block, stretches, guarded, grid stride, float4."""

from dataclasses import dataclass, replace
from typing import Final

from common.contract import Status
from trainer.data.kernels.family import Element, Family, Shapes, arguments, includes, parameters
from trainer.data.kernels.style import Flaw, Style

_WRONG, _BAD_ACCESS = Status.INCORRECT, Status.RUNTIME_ERROR


@dataclass(frozen=True)
class _Map:
    """`element` is C with `{x}` for the element of the tensor `x` that belongs to `i`, or, in two dimensions, to row
    `r` and column `c`.
    """

    name: str
    title: str
    expression: str
    element: str
    mistake: tuple[str, str]
    """A part of `element`, and what is written in its place by mistake."""
    shapes: tuple[Shapes, ...]
    places: tuple[tuple[str, str], ...] = ()
    """Tensors whose element does not stand at `i`, with its index."""
    sizes: tuple[str, ...] = ("n",)
    out: tuple[str, ...] = ("n",)
    kind: Element = "float32"

    @property
    def tensors(self) -> tuple[str, ...]:
        return tuple(self.shapes[0])

    @property
    def count(self) -> str:
        return " * ".join(self.sizes)

    def at(self, element: str, index: str = "i") -> str:
        """The value that belongs to an index."""
        found = {name: f"{name}[{dict(self.places).get(name, index)}]" for name in self.tensors}
        if self.kind == "float16":
            found = {name: f"__half2float({read})" for name, read in found.items()}
            return f"__float2half({element.format(**found)})"
        return element.format(**found)

    def body(self, indent: int, element: str | None = None) -> str:
        """Statements that make one element, `i`."""
        lines = [f"out[i] = {self.at(element or self.element)};"]
        if len(self.sizes) == 2:
            lines = (
                ["int r = i / n1;"] * ("r" in self._names()) + ["int c = i % n1;"] * ("c" in self._names()) + lines
            )
        return "".join(f"{' ' * indent}{line}\n" for line in lines)

    def _names(self) -> set[str]:
        text = " ".join([self.element, *(place for _, place in self.places)])
        return {name for name in ("r", "c") if any(word == name for word in _words(text))}

    def head(self, grid: str) -> str:
        """Launch line and signature."""
        return (
            f"{includes(self.kind)}// assay: launch KERNEL grid=({grid}) block=(256) "
            f"args=({arguments(self.tensors, self.sizes)})\n"
            f"__global__ void KERNEL({parameters(self.tensors, self.sizes, self.kind)})\n"
        )


def _words(text: str) -> list[str]:
    return "".join(sign if sign.isalnum() or sign == "_" else " " for sign in text).split()


def _one_block(map_: _Map) -> Style:
    text = (
        f"{map_.head('1')}{{\n    for (int i = threadIdx.x; i < {map_.count}; i += blockDim.x) {{\n"
        f"{map_.body(8)}    }}\n}}\n"
    )
    flaws = (Flaw("bound off by one", f"i < {map_.count};", f"i <= {map_.count};", _BAD_ACCESS),)
    return Style(map_.name, "one block", text, flaws)


def _stretches(map_: _Map) -> Style:
    text = (
        f"{map_.head(f'ceil_div({map_.count}, 4096)')}{{\n"
        "    int start = (blockIdx.x * blockDim.x + threadIdx.x) * 16;\n"
        f"    for (int i = start; i < start + 16 && i < {map_.count}; i++) {{\n{map_.body(8)}    }}\n}}\n"
    )
    flaws = (Flaw("stretches not bounded", f" && i < {map_.count};", ";", _BAD_ACCESS),)
    return Style(map_.name, "a stretch a thread", text, flaws)


def _guarded(map_: _Map) -> Style:
    text = (
        f"{map_.head(f'ceil_div({map_.count}, 256)')}{{\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        f"    if (i < {map_.count}) {{\n{map_.body(8)}    }}\n}}\n"
    )
    right, wrong = map_.at(map_.element), map_.at(map_.element.replace(*map_.mistake))
    flaws = (
        Flaw("wrong formula", f"out[i] = {right};", f"out[i] = {wrong};", _WRONG),
        Flaw("no guard", f"if (i < {map_.count}) ", "", _BAD_ACCESS),
        Flaw("index within the block only", "blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x", _WRONG),
        Flaw("grid of one block", f"grid=(ceil_div({map_.count}, 256))", "grid=(1)", _WRONG),
    )
    return Style(map_.name, "guarded", text, flaws)


def _striding(map_: _Map) -> Style:
    text = (
        f"{map_.head(f'min(ceil_div({map_.count}, 256), 1024)')}{{\n"
        f"    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < {map_.count}; i += gridDim.x * blockDim.x) {{\n"
        f"{map_.body(8)}    }}\n}}\n"
    )
    flaws = (
        Flaw("bound off by one", f"i < {map_.count};", f"i <= {map_.count};", _BAD_ACCESS),
        Flaw("starts in each block anew", "blockIdx.x * blockDim.x + threadIdx.x; ", "blockIdx.x; ", _WRONG),
    )
    return Style(map_.name, "grid stride", text, flaws)


def _vectors(map_: _Map) -> Style:
    reads = "".join(
        f"        float4 {name}4 = *reinterpret_cast<const float4*>({name} + i);\n" for name in map_.tensors
    )
    lanes = "".join(
        f"        four.{lane} = {map_.element.format(**{name: f'{name}4.{lane}' for name in map_.tensors})};\n"
        for lane in "xyzw"
    )
    text = (
        f"{map_.head(f'ceil_div({map_.count}, 1024)')}{{\n"
        "    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);\n"
        f"    if (i + 3 < {map_.count}) {{\n{reads}        float4 four;\n{lanes}"
        "        *reinterpret_cast<float4*>(out + i) = four;\n    } else {\n"
        f"        for (; i < {map_.count}; i++) {{\n{map_.body(12)}        }}\n    }}\n}}\n"
    )
    tail = text[text.index(" else {") :]
    flaws = (
        Flaw("tail left out", tail, "\n}\n", _WRONG),
        Flaw("vectors past the end", f"i + 3 < {map_.count}", f"i < {map_.count}", _BAD_ACCESS),
    )
    return Style(map_.name, "float4", text, flaws)


def _family(map_: _Map) -> Family:
    styles = [_one_block(map_), _stretches(map_), _guarded(map_), _striding(map_)]
    if map_.sizes == ("n",) and map_.kind == "float32":
        styles.append(_vectors(map_))
    return Family(map_.name, map_.title, map_.expression, map_.shapes, map_.out, tuple(styles), map_.kind)


def _lines(*tensors: str) -> tuple[Shapes, ...]:
    return tuple(dict.fromkeys(tensors, (count,)) for count in (5000, 150_001, 1023))


def _tables(*tensors: str) -> tuple[Shapes, ...]:
    """Each name is of a table, unless it is `row` or `column`, which have one extent."""
    found = []
    for rows, columns in ((70, 130), (301, 402), (33, 257)):
        shapes = {"row": (columns,), "column": (rows,)}
        found.append({name: shapes.get(name, (rows, columns)) for name in tensors})
    return tuple(found)


def _one(name: str, title: str, expression: str, element: str, mistake: tuple[str, str]) -> _Map:
    tensors = tuple(name for name in ("a", "b", "c", "x") if f"{{{name}}}" in element)
    return _Map(name, title, expression, element, mistake, _lines(*tensors))


def _table(
    name: str, title: str, expression: str, element: str, mistake: tuple[str, str], *tensors: str, **places: str
) -> _Map:
    return _Map(
        name,
        title,
        expression,
        element,
        mistake,
        _tables(*tensors),
        tuple(places.items()),
        ("n0", "n1"),
        ("n0", "n1"),
    )


_MAPS: Final = (
    _one("silu", "SiLU", "F.silu(x)", "{x} / (1.0f + expf(-{x}))", ("expf(-", "expf(")),
    _one("softplus", "Softplus", "F.softplus(x)", "({x} > 20.0f ? {x} : log1pf(expf({x})))", ("log1pf(", "logf(")),
    _one("mish", "Mish", "F.mish(x)", "{x} * tanhf(log1pf(expf({x})))", ("tanhf(", "(")),
    _one(
        "hardswish",
        "Hardswish",
        "F.hardswish(x)",
        "{x} * fminf(fmaxf({x} + 3.0f, 0.0f), 6.0f) / 6.0f",
        (" + 3.0f", " + 2.0f"),
    ),
    _one("elu", "ELU", "F.elu(x)", "({x} > 0.0f ? {x} : expm1f({x}))", ("expm1f", "expf")),
    _one("leaky_relu", "Leaky ReLU", "F.leaky_relu(x, 0.1)", "({x} > 0.0f ? {x} : 0.1f * {x})", ("0.1f", "0.01f")),
    _one(
        "gelu_tanh",
        "GELU by tanh",
        "0.5 * x * (1 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))",
        "0.5f * {x} * (1.0f + tanhf(0.79788456f * ({x} + 0.044715f * {x} * {x} * {x})))",
        ("0.044715f", "0.44715f"),
    ),
    _one("hypotenuse", "The hypotenuse", "torch.hypot(a, b)", "sqrtf({a} * {a} + {b} * {b})", (" + ", " - ")),
    _one("lerp", "A linear interpolation", "torch.lerp(a, b, 0.25)", "{a} + 0.25f * ({b} - {a})", ("0.25f", "0.75f")),
    _one("gate", "A sigmoid gate", "torch.sigmoid(a) * b", "{b} / (1.0f + expf(-{a}))", ("expf(-", "expf(")),
    _one("add_relu", "A sum and its ReLU, fused", "torch.relu(a + b)", "fmaxf({a} + {b}, 0.0f)", ("fmaxf", "fminf")),
    _one(
        "scale_clamp",
        "A scale, a shift and a clamp, fused",
        "torch.clamp(2 * x + 1, -1, 1)",
        "fminf(fmaxf(2.0f * {x} + 1.0f, -1.0f), 1.0f)",
        ("fmaxf(2.0f * {x} + 1.0f, -1.0f)", "(2.0f * {x} + 1.0f)"),
    ),
    _one(
        "bell",
        "A Gaussian of a difference",
        "torch.exp(-torch.square(a - b))",
        "expf(-({a} - {b}) * ({a} - {b}))",
        ("expf(-", "expf("),
    ),
    _one("multiply_add", "A product and a sum, fused", "a * b + c", "{a} * {b} + {c}", (" + ", " - ")),
    _table(
        "bias_gelu",
        "A bias for each column and GELU, fused",
        "F.gelu(x + row)",
        "0.5f * ({x} + {row}) * erfcf(-0.70710678f * ({x} + {row}))",
        ("erfcf(-", "erfcf("),
        "x",
        "row",
        row="c",
    ),
    _table(
        "scale_columns", "A factor for each column", "x * row", "{x} * {row}", (" * ", " + "), "x", "row", row="c"
    ),
    _table(
        "outer",
        "The outer product",
        "torch.outer(column, row)",
        "{column} * {row}",
        (" * ", " + "),
        "column",
        "row",
        column="r",
        row="c",
    ),
    _table(
        "flip_rows",
        "Each row turned around, doubled",
        "2 * torch.flip(x, (1,))",
        "2.0f * {x}",
        ("2.0f", "1.0f"),
        "x",
        x="r * n1 + n1 - 1 - c",
    ),
    _table(
        "roll_rows",
        "Each row moved on by one and added to itself",
        "x + torch.roll(x, 1, 1)",
        "x[i] + x[r * n1 + (c + n1 - 1) % n1]",
        ("n1 - 1) % n1", "1) % n1"),
        "x",
    ),
    _table(
        "lower_triangle", "The lower triangle", "torch.tril(x)", "(c <= r ? {x} : 0.0f)", ("c <= r", "c < r"), "x"
    ),
)

_HALF: Final = tuple(
    replace(map_, name=f"{map_.name}_half", title=f"{map_.title}, in float16", kind="float16")
    for map_ in _MAPS
    if map_.name in ("silu", "add_relu", "multiply_add", "scale_columns")
)

FAMILIES: Final = tuple(_family(map_) for map_ in (*_MAPS, *_HALF))
