# ruff: noqa: E501 - a template reads best on one line
"""Forms of products of matrices and of moves of 8 x 8 matrices: each of eight whole warps does one.

PTX ISA 9.0, sections 9.7.14 and 9.7.15. Products of floats twice: of small whole numbers, where every sum is exact,
and of any, where the ISA leaves the order and the precision of the sum open.
"""

import re
from collections.abc import Iterator

import test_tensors
from conformance.forms import PAGES, Form, expanded

_CONTENT = {"f16": "f16x2", "bf16": "bf16x2", "tf32": "f32", "f32": "f32", "f64": "f64"}
MOVES = [
    "st.shared.v2.b64 [{slot}], {{a:b64}, {b:b64}}; bar.warp.sync -1; "
    "ldmatrix.sync.aligned.m8n8.x1<|.trans>.shared.b16 {{d:b32}}, [{slot}];",
    "st.shared.v2.b64 [{slot}], {{a:b64}, {b:b64}}; bar.warp.sync -1; "
    "ldmatrix.sync.aligned.m8n8.x2<|.trans>.shared<|::cta>.b16 {{d:b32}, {d2:b32}}, [{slot}];",
    "st.shared.v2.b64 [{slot}], {{a:b64}, {b:b64}}; bar.warp.sync -1; "
    "ldmatrix.sync.aligned.m8n8.x4<|.trans>.shared.b16 {{d:b32}, {d2:b32}, {d3:b32}, {d4:b32}}, [{slot}];",
    "st.shared.v2.b64 [{slot}], {{a:b64}, {b:b64}}; bar.warp.sync -1; stmatrix.sync.aligned.m8n8.x1<|.trans>.shared.b16 "
    "[{slot}], {{e:b32}}; bar.warp.sync -1; ld.shared.v2.b64 {{d:b64}, {d2:b64}}, [{slot}];",
    "st.shared.v2.b64 [{slot}], {{a:b64}, {b:b64}}; bar.warp.sync -1; stmatrix.sync.aligned.m8n8.x2<|.trans>"
    ".shared<|::cta>.b16 [{slot}], {{e:b32}, {f:b32}}; bar.warp.sync -1; ld.shared.v2.b64 {{d:b64}, {d2:b64}}, [{slot}];",
    "st.shared.v2.b64 [{slot}], {{a:b64}, {b:b64}}; bar.warp.sync -1; stmatrix.sync.aligned.m8n8.x4<|.trans>.shared.b16 "
    "[{slot}], {{e:b32}, {f:b32}, {g:b32}, {h:b32}}; bar.warp.sync -1; ld.shared.v2.b64 {{d:b64}, {d2:b64}}, [{slot}];",
    "movmatrix.sync.aligned.m8n8.trans.b16 {d:b32}, {a:b32};",
]


def _register(kind: str, content: str) -> str:
    return "f64" if kind == "f64" else content if content in ("f16x2", "bf16x2") else "b32"


def _products() -> Iterator[str]:
    names = [(name, counts, types) for name, counts, types in test_tensors.PRODUCTS]
    double = [
        (f"{name[: name.index('.f64')]}.rn{name[name.index('.f64') :]}", *rest)
        for name, *rest in names
        if ".f64" in name
    ]
    for name, counts, (d, a, b, c) in [*names, *double]:
        floats = a[0] not in "sub" or a in ("bf16",)
        for values in ("whole", "normal") if floats else ("",):
            groups = []
            for letter, kind, count in zip("dabc", (d, a, b, c), counts, strict=True):
                content = _CONTENT.get(kind, "b32")
                register = _register(kind, content)
                if letter == "d":
                    suffix = f"@{content}" if register == "b32" else ""
                else:
                    suffix = f"@{values}_{content}" if values else ""
                fields = ", ".join(f"{{{letter}{n}:{register}{suffix}}}" for n in range(count))
                groups.append(f"{{{fields}}}")
            yield f"{name} {', '.join(groups)};"


def _fragments() -> Iterator[str]:
    """`wmma`, whose fragments are opaque: from shared memory and back."""
    for shape, kind, out, layouts, space in test_tensors.FRAGMENTS:
        if space:
            yield from (_fragment(shape, kind, out, layouts, values) for values in _values(kind))
    yield _fragment("m16n16k16", "f16", "f32", ("row", "row"), "whole")
    for kind, out, shape in (("f16", "f32", "m16n16k16"), ("s8", "s32", "m32n8k16"), ("f64", "f64", "m8n8k4")):
        text = _fragment(shape, kind, out, ("row", "col"), _values(kind)[0])
        yield text.replace(".shared.", ".shared::cta.").replace("st.shared::cta.", "st.shared.")
        yield _in_global_memory(text)


def _values(kind: str) -> tuple[str, ...]:
    return ("any",) if kind in ("s8", "u8") else ("whole", "normal")


def _fragment(shape: str, kind: str, out: str, layouts: tuple[str, str], values: str) -> str:
    text = test_tensors._wmma(shape, kind, out, layouts, ".shared")
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    size = {"f16": 2, "bf16": 2, "s8": 1, "u8": 1, "tf32": 4, "f64": 8}[kind]
    b_at = -(-int(m) * int(k) * size // 64) * 64
    c_at = b_at + -(-int(n) * int(k) * size // 64) * 64
    text = text.replace("[%x+2048]", f"[{{pages}}+{b_at}]").replace("[%x+4096]", f"[{{pages}}+{c_at}]")
    text = text.replace("[%x]", "[{pages}]").replace(".global.", ".shared.").replace("[%to]", f"[{{pages}}+{c_at}]")
    for letter in "abcd":
        text = text.replace(f"%{letter}", f"{letter}r")
    content = f"{values}_{kind}_{out}_{b_at}_{c_at}"
    stores = " ".join(f"st.shared.b64 [{{page}}+{8 * i}], {{a{i}:b64@tile_{content}}};" for i in range(16))
    loads = " ".join(f"ld.shared.b64 {{d{i}:b64@tile_{out}}}, [{{page}}+{8 * i}];" for i in range(16))
    text = " ".join(text.split("\n"))
    return f"{stores} bar.warp.sync -1; {text.removesuffix('}').rstrip()} bar.warp.sync -1; {loads} }}"


def _in_global_memory(text: str) -> str:
    """From the inputs of the warp's lanes to their results, which lie one behind the other."""
    stores, _, rest = text.partition(" bar.warp.sync -1; ")
    inputs = re.findall(r"\{a\d+:\S+\}", stores)
    product, _, loads = rest.partition(" bar.warp.sync -1; ")
    product = (
        product.replace(".shared.", ".global.")
        .replace("[{pages}", "[from")
        .replace(".store.d.sync.aligned.row", ".store.d.sync.aligned.col")
    )
    shape = re.search(r"\.m(\d+)n(\d+)k", product)
    product = re.sub(r"\[from\+\d+\], (\{dr[^}]*\}), \d+", rf"[to], \1, {shape[1]}", product)
    moves = " ".join(f"mov.b64 {{d{n}:b64}}, {field};" for n, field in enumerate(inputs))
    head = (
        "{ .reg .b64 from, to; .reg .b32 lane; mov.u32 lane, %laneid; mul.wide.u32 from, lane, 128; "
        "sub.u64 to, {out}, from; sub.u64 from, {in}, from;"
    )
    loads = loads.replace("ld.shared.", "ld.global.").replace("{page}", "{out}")
    return f"{moves} {head} {product} bar.warp.sync -1; {loads} }}"


def matrix_forms() -> Iterator[Form]:
    """All of them."""
    yield from (Form(text) for text in expanded([*MOVES]))
    yield from (Form(text) for text in _products())
    yield from (Form(text, PAGES) for text in _fragments())
