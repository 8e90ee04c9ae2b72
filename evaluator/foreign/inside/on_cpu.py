"""Files that were written for a GPU and for one type of number, as they are carried out here."""

import ast
from typing import Any, Final

MOST_SIZE: Final = 1 << 31
OWN_SEED: Final = "_own_seed_of_this_draw"
"""The name under which a file that is carried out here has `operators.own_seed`."""
_SEEDING: Final = ("manual_seed", "manual_seed_all")
_SEEDING_OF_RANDOM: Final = ("seed", "default_rng", "Random", "RandomState")
_FOLDED: Final = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.FloorDiv: lambda left, right: left // right if right else 0,
    ast.LShift: lambda left, right: left << right if right < 32 else 0,
    ast.Pow: lambda left, right: left**right if right < 32 else 0,
}


def is_size(value: Any) -> bool:
    """Whether it can be the extent of an axis."""
    return type(value) is int and 1 <= value < MOST_SIZE


class FoldedNumbers(ast.NodeTransformer):
    """Numbers such as `1 << 20` are one number."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        left, right, fold = node.left, node.right, _FOLDED.get(type(node.op))
        if not (fold and isinstance(left, ast.Constant) and isinstance(right, ast.Constant)):
            return node
        if not (is_size(left.value) and is_size(right.value)):
            return node
        value = fold(left.value, right.value)
        return ast.copy_location(ast.Constant(value), node) if is_size(value) else node


class AsComputedHere(FoldedNumbers):
    """The file without what is of a GPU: its device is the CPU; assertions, which state types that float64 has not,
    are left out; and `f(…, out=y)` is `y.copy_(f(…))`. Generators begin from our seed where it states one, or each
    draw would be the same.
    """

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and (node.value == "cuda" or node.value.startswith("cuda:")):
            return ast.copy_location(ast.Constant("cpu"), node)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        return ast.copy_location(ast.Pass(), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if _is_seeding(node):
            own = ast.Call(ast.Name(OWN_SEED, ast.Load()), node.args, [])
            node.args = [ast.copy_location(own, node)]
        target = next((one.value for one in node.keywords if one.arg == "out"), None)
        if not isinstance(target, ast.Name):
            return node
        node.keywords = [one for one in node.keywords if one.arg != "out"]
        copied = ast.Call(ast.Attribute(target, "copy_", ast.Load()), [node], [])
        return ast.copy_location(copied, node)


def _is_seeding(node: ast.Call) -> bool:
    """Whether it is `torch.manual_seed(0)`, `generator.manual_seed(0)`, `random.seed(0)`, `np.random.seed(0)` …"""
    called = node.func
    if not isinstance(called, ast.Attribute) or len(node.args) != 1 or node.keywords:
        return False
    of = called.value
    module = of.attr if isinstance(of, ast.Attribute) else getattr(of, "id", "")
    return called.attr in _SEEDING or (called.attr in _SEEDING_OF_RANDOM and module == "random")


def parsed_for_cpu(text: str, name: str) -> ast.Module:
    """The file as it is carried out here. Raises SyntaxError."""
    tree: ast.Module = AsComputedHere().visit(ast.parse(text, name))
    return ast.fix_missing_locations(tree)
