"""Every video instruction with every flag, as templates of `test_instructions.py`."""

import itertools
import random
from collections.abc import Iterator

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def video_cases() -> Iterator[str]:
    """Scalar ones, each with parts of words that are drawn; some come twice."""
    words = ("u32", "s32")
    parts = ("", ".b0", ".b3", ".h0", ".h1")
    ends = ("", ".add", ".min", ".max")
    source = random.Random(11)

    def scalar(op: str, types: str, words_after: str, end: str, into: str) -> str:
        a, b = (source.choice(parts) for _ in "ab")
        third = ", {c:u32}" if end or into else ""
        return f"{op}.{types}{words_after}{end} {{d:u32}}{into}, {{a:u32}}{a}, {{b:u32}}{b}{third};"

    kept = [*((end, "") for end in ends), *(("", f".{into}") for into in ("b0", "b1", "b2", "b3", "h0", "h1"))]
    for types in map(".".join, itertools.product(words, repeat=3)):
        for op in ("vadd", "vsub", "vabsdiff", "vmin", "vmax"):
            for sat in ("", ".sat"):
                yield scalar(op, types, sat, *source.choice(kept))
                yield scalar(op, types, sat, "", "")
        for sat, end in itertools.product(("", ".sat"), ends):
            yield scalar("vsub", types, sat, end, "")
    for dtype, atype, mode in itertools.product(words, words, (".clamp", ".wrap")):
        for op, sat in itertools.product(("vshl", "vshr"), ("", ".sat")):
            yield scalar(op, f"{dtype}.{atype}.u32", sat + mode, *source.choice(kept))
            yield f"{op}.{dtype}.{atype}.u32{sat}{mode} {{d:u32}}, {{a:u32}}, {{b:u32}}.b1;"
    for (one, two), c in itertools.product(itertools.product(words, repeat=2), COMPARISONS):
        yield scalar("vset", f"{one}.{two}", f".{c}", *source.choice(kept))
    for end, into in kept:
        yield scalar("vset", "s32.u32", ".le", end, into)
    for types in map(".".join, itertools.product(words, repeat=3)):
        for a, b, c in (("", "", ""), ("-", "", ""), ("", "-", ""), ("", "", "-"), ("-", "-", "")):
            for sat, scale in itertools.product(("", ".sat"), ("", ".shr7", ".shr15")):
                p, q = (source.choice(parts) for _ in "ab")
                yield f"vmad.{types}{sat}{scale} {{d:u32}}, {a}{{a:u32}}{p}, {b}{{b:u32}}{q}, {c}{{c:u32}};"
        yield f"vmad.{types}.po {{d:u32}}, {{a:u32}}.h0, {{b:u32}}.h1, {{c:u32}};"
        yield f"vmad.{types}.po.sat.shr7 {{d:u32}}, {{a:u32}}, {{b:u32}}, {{c:u32}};"


def simd_cases() -> Iterator[str]:
    """Those on two halves or four bytes."""
    words = ("u32", "s32")
    source = random.Random(12)
    masks = {
        2: ("", ".h0", ".h1", ".h10"),
        4: ("", ".b0", ".b1", ".b10", ".b2", ".b20", ".b21", ".b210", ".b3", ".b30", ".b31", ".b310", ".b32", ".b320",
            ".b321", ".b3210"),
    }  # fmt: skip

    def simd(op: str, count: int, words_after: str) -> str:
        letter, places = ("h", 4) if count == 2 else ("b", 8)
        chosen = [
            source.choice(("", "." + letter + "".join(str(source.randrange(places)) for _ in range(count))))
            for _ in "ab"
        ]
        mask = source.choice(masks[count])
        return f"{op}{count}.{words_after} {{d:u32}}{mask}, {{a:u32}}{chosen[0]}, {{b:u32}}{chosen[1]}, {{c:u32}};"

    for count, types in itertools.product((2, 4), map(".".join, itertools.product(words, repeat=3))):
        for op, after in itertools.product(
            ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"), ("", ".sat", ".add")
        ):
            yield simd(op, count, types + after)
    for count, one, two, c, after in itertools.product((2, 4), words, words, COMPARISONS, ("", ".add")):
        yield simd("vset", count, f"{one}.{two}.{c}{after}")
    for count in masks:
        for mask in masks[count]:
            yield f"vsub{count}.u32.s32.s32 {{d:u32}}{mask}, {{a:u32}}, {{b:u32}}, {{c:u32}};"
