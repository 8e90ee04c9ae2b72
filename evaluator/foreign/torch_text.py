"""PyTorch text as a problem: `torch.add(a, b)` over named tensors becomes a file in KernelBench's form.

The text is parsed and never carried out here: only names of given tensors, numbers and functions of a stated list get
into the file, which then runs in the sandbox as any other.
"""

import ast
import difflib
import keyword
import re
from collections.abc import Mapping
from typing import Final, Literal

from evaluator.errors import UsageError

MOST_CHARACTERS: Final = 2000
_MOST_TITLE: Final = 70
"""Characters of an expression in a title: one line of a terminal's card."""
_RETURN: Final = "        return "
_MOST_DEPTH: Final = 100
"""Of calls and operators: to find out that Python's own limit is reached takes 30 ms and a megabyte."""
_TORCH: Final = frozenset(
    [
        "abs",
        "acos",
        "acosh",
        "add",
        "addmm",
        "addmv",
        "amax",
        "amin",
        "argmax",
        "argmin",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "baddbmm",
        "bmm",
        "cat",
        "ceil",
        "clamp",
        "cos",
        "cosh",
        "cumprod",
        "cumsum",
        "diag",
        "div",
        "dot",
        "einsum",
        "erf",
        "erfc",
        "exp",
        "exp2",
        "expm1",
        "flip",
        "floor",
        "gather",
        "hypot",
        "index_select",
        "inner",
        "kron",
        "lerp",
        "log",
        "log10",
        "log1p",
        "log2",
        "logsumexp",
        "matmul",
        "max",
        "maximum",
        "mean",
        "min",
        "minimum",
        "mm",
        "mul",
        "mv",
        "neg",
        "norm",
        "outer",
        "permute",
        "pow",
        "prod",
        "reciprocal",
        "relu",
        "roll",
        "round",
        "rsqrt",
        "sigmoid",
        "sign",
        "sin",
        "sinh",
        "softmax",
        "sort",
        "sqrt",
        "square",
        "stack",
        "std",
        "sub",
        "sum",
        "tan",
        "tanh",
        "tensordot",
        "trace",
        "transpose",
        "tril",
        "triu",
        "var",
        "where",
    ]
)
_FUNCTIONAL: Final = frozenset(
    [
        "avg_pool1d",
        "avg_pool2d",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose2d",
        "cross_entropy",
        "elu",
        "gelu",
        "glu",
        "group_norm",
        "hardsigmoid",
        "hardswish",
        "hardtanh",
        "huber_loss",
        "kl_div",
        "l1_loss",
        "layer_norm",
        "leaky_relu",
        "linear",
        "log_softmax",
        "logsigmoid",
        "max_pool1d",
        "max_pool2d",
        "mish",
        "mse_loss",
        "normalize",
        "pad",
        "relu",
        "relu6",
        "rms_norm",
        "scaled_dot_product_attention",
        "selu",
        "sigmoid",
        "silu",
        "smooth_l1_loss",
        "softmax",
        "softmin",
        "softplus",
        "softsign",
        "tanh",
        "tanhshrink",
    ]
)
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_MOST_EXTENT: Final = 1 << 31
_SHAPE: Final = re.compile(r"([A-Za-z]\w*)=([1-9][0-9]{0,30}(?:x[1-9][0-9]{0,30}){0,7})", re.ASCII)
_PLAIN: Final = (
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.MatMult, ast.USub, ast.UAdd, ast.Load, ast.Tuple, ast.List),
    *(
        ast.Subscript,
        ast.Slice,
        ast.BinOp,
        ast.UnaryOp,
        ast.keyword,
        ast.Compare,
        ast.Lt,
        ast.LtE,
        ast.Gt,
        ast.GtE,
        ast.Eq,
        ast.NotEq,
    ),
)


def expression_of(text: str) -> str:
    """The expression of which `kernelbench_text` made this file; shortened, for titles."""
    written = next((line.strip() for line in text.splitlines() if line.startswith(_RETURN)), "")
    expression = written.removeprefix(_RETURN.strip()).strip()
    return expression if len(expression) <= _MOST_TITLE else f"{expression[:_MOST_TITLE]} …"


def kernelbench_text(
    expression: str, shapes: Mapping[str, tuple[int, ...]], given_by: Literal["--shape", "shapes"] = "shapes"
) -> str:
    """A file in KernelBench's form that computes `expression` of standard normal tensors of these shapes.

    Its sizes are the distinct extents in order: `n`, or `n0`, `n1` … where there are several. `given_by`: how shapes
    are given where messages are read, as an option of a command or a member of a request.

    Raises UsageError for anything but names of `shapes`, numbers, operators and the functions listed above, and for
    what can be no name or extent.
    """
    for name, shape in shapes.items():
        if not _can_be_named(name) or not shape or not all(1 <= extent <= _MOST_EXTENT for extent in shape):
            raise UsageError(
                f"The tensor {name[:64]!r} cannot have this name or the shape {list(shape[:8])}.",
                f"Names are those of variables, and extents whole numbers from 1 to {_MOST_EXTENT:,}.",
            )
    if len(expression) > MOST_CHARACTERS:
        raise UsageError(f"The expression has {len(expression):,} characters; it may have {MOST_CHARACTERS:,}.")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
        if _depth(tree) > _MOST_DEPTH:
            raise ValueError(f"it nests deeper than {_MOST_DEPTH}")
        used = _checked_names(tree.body, shapes, given_by)
        written = ast.unparse(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        end = "" if said.endswith("?") else "."
        raise UsageError(f"The expression {expression[:80]!r} is not one: {said[:200]}{end}") from error
    unused = [name for name in shapes if name not in used]
    if unused:
        raise UsageError(
            f"The expression does not use {', '.join(unused)}.",
            f"Leave out its {given_by}." if given_by == "--shape" else "Leave it out of `shapes`.",
        )
    extents = dict.fromkeys(extent for shape in shapes.values() for extent in shape)
    names = {extent: "n" if len(extents) == 1 else f"n{at}" for at, extent in enumerate(extents)}
    sizes = [f"{name} = {extent}" for extent, name in names.items()]
    drawn = [f"torch.randn({', '.join(names[extent] for extent in shape)})" for shape in shapes.values()]
    lines = [
        "import torch",
        "import torch.nn.functional as F",
        *sizes,
        "class Model(torch.nn.Module):",
        f"    def forward(self, {', '.join(shapes)}):",
        f"{_RETURN}{written}",
        "def get_inputs():",
        f"    return [{', '.join(drawn)}]",
    ]
    return "\n".join(lines) + "\n"


def _depth(tree: ast.AST) -> int:
    depth, level = 0, [tree]
    while level:
        depth, level = depth + 1, [inner for one in level for inner in ast.iter_child_nodes(one)]
    return depth


def shapes_of(given: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """`a=1024` and `b=32x64` by name. Raises UsageError."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in given:
        match = _SHAPE.fullmatch(text)
        if match is None or not _can_be_named(match[1]):
            raise UsageError(
                f"--shape {text} cannot be read.",
                f"Write it as NAME=EXTENTS, whole numbers from 1 to {_MOST_EXTENT:,}, for example --shape a=1024 "
                "--shape b=32x64.",
            )
        if match[1] in shapes:
            raise UsageError(f"--shape gives {match[1]} twice.", "Give each tensor one shape.")
        extents = tuple(int(extent) for extent in match[2].split("x"))
        if max(extents) > _MOST_EXTENT:
            raise UsageError(
                f"--shape {text[:80]}: an extent may be {_MOST_EXTENT:,} at most, and not {max(extents):,}.",
                "Give a smaller one.",
            )
        shapes[match[1]] = extents
    if not shapes:
        raise UsageError("Which shapes do the tensors have?", "Add --shape NAME=EXTENTS for each of them.")
    return shapes


def _can_be_named(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and name not in ("torch", "F", "self") and not keyword.iskeyword(name)


def _checked_names(
    node: ast.expr, shapes: Mapping[str, tuple[int, ...]], given_by: Literal["--shape", "shapes"]
) -> set[str]:
    """The tensors that an expression uses. Raises ValueError for what it may not hold."""
    used: set[str] = set()
    functions = {id(call.func) for call in ast.walk(node) if isinstance(call, ast.Call)}
    modules: set[int] = set()
    for one in ast.walk(node):
        if id(one) in functions:
            modules.add(id(_listed_function(one)))
    for one in ast.walk(node):
        if isinstance(one, ast.Name) and id(one) not in modules:
            if one.id not in shapes:
                such = f"--shape {one.id}=1024" if given_by == "--shape" else f'{{"{one.id}": [1024]}}'
                raise ValueError(f"{one.id} is no tensor with a shape, such as {such}")
            used.add(one.id)
        elif isinstance(one, ast.Constant):
            if not isinstance(one.value, int | float | bool | str | None):
                raise ValueError(f"{one.value!r} is no number")
        elif isinstance(one, ast.Call):
            if any(isinstance(argument, ast.Starred) for argument in one.args) or not all(
                k.arg for k in one.keywords
            ):
                raise ValueError("* and ** are not read")
        elif not isinstance(one, _PLAIN) and id(one) not in functions and not isinstance(one, ast.Name):
            raise ValueError(
                f"{ast.unparse(one)[:60] if isinstance(one, ast.expr) else type(one).__name__} is not read"
            )
    return used


def _listed_function(function: ast.AST) -> ast.Name:
    """The name `torch` or `F` in a call of a listed function. Raises ValueError for any other."""
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        listed = {"torch": _TORCH, "F": _FUNCTIONAL}.get(function.value.id, frozenset())
        if function.attr in listed:
            return function.value
    written = ast.unparse(function)[:60]
    near = difflib.get_close_matches(written, FUNCTIONS, n=1, cutoff=0.75)
    own = [name for name in FUNCTIONS if name.partition(".")[2] == written.rpartition(".")[2]]
    meant = " or ".join(own or near)
    raise ValueError(f"{written} is none of the functions that are read{f': did you mean {meant}?' if meant else ''}")


FUNCTIONS: Final = (*(f"torch.{name}" for name in sorted(_TORCH)), *(f"F.{name}" for name in sorted(_FUNCTIONAL)))
"""All that an expression may call, as it calls them."""
