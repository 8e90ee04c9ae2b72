# ruff: noqa: E501 - PTX reads best one statement after the other
"""What goes wrong is named: kind, thread, block, line, buffer and element; and what is printed is what C prints."""

import ctypes
import re

import numpy as np
import pytest
from duel import HEADER, Duel

from evaluator.backends.session import Buffer, KernelLaunch, Pointer

# Kernel name: (body, kind, words of the message, buffer, element). 40 threads in each of two blocks; thread 35 of
# block 1 does it. The instruction at fault stands on line 20.
FAULTS = {
    "one_past": ("add.s64 %a, %out, 400; @%p st.global.u32 [%a], 1;", "out_of_bounds", "one past the end", "out", 100),
    "far": ("add.s64 %a, %in, 800000; @%p ld.global.u32 %r, [%a];", "out_of_bounds", "read in[200000]", "in", 200000),
    "negative": ("@%p ld.global.u32 %r, [%in+-8];", "out_of_bounds", "before its start", "in", -2),
    "reaching": ("@%p st.global.v2.u32 [%out+396], {%r, %r};", "out_of_bounds|misaligned", "out[99]", "out", 99),
    "vector": ("@%p ld.global.v4.u32 {%r, %r, %r, %r}, [%in+4];", "misaligned", "behind a multiple of 16", "in", 1),
    "atomic": ("@%p atom.global.add.u32 %r, [%out+2], 1;", "misaligned", "behind a multiple of 4", "out", 0),
    "null": ("mov.u64 %a, 0; @%p st.global.u32 [%a+12], 1;", "null", "a null pointer", None, None),
    "wild": ("mov.u64 %a, 0xdeadbeef00; @%p ld.u32 %r, [%a];", "out_of_bounds", "no buffer", None, None),
    "shared": ("@%p st.shared.u32 [tile+64], 1;", "out_of_bounds", "wrote tile[16], one past the end", "tile", 16),
    "shared_before": ("@%p ld.shared.u32 %r, [tile+-4];", "out_of_bounds", "read tile[-1], before its start", "tile", -1),
    "local": ("@%p st.local.u32 [room+4096], 1;", "out_of_bounds", "local memory", "local memory", None),
    "constant": ("@%p st.u32 [table], 1;", "write_to_constant", "wrote table[0]", "table", 0),
    "module": ("@%p st.global.u32 [state+16], 1;", "out_of_bounds", "state[4], one past the end", "state", 4),
    "trap": ("@%p trap;", "trap", "trap", None, None),
    "asserted": (
        "@!%p bra OVER; mov.u64 %a, text; st.param.b64 [p0], %a; st.param.b64 [p1], %a; st.param.b32 [p2], 20; "
        "st.param.b64 [p3], %a; st.param.b64 [p4], 1; call.uni __assertfail, (p0, p1, p2, p3, p4); OVER:",
        "assert", "failed the assertion `n > 0`", None, None,
    ),
    "overflow": ("@%p call endless; ", "stack_overflow", "deep", None, None),
    "loop": ("@!%p bra OVER; AGAIN: bra AGAIN; OVER:", "watchdog", "still running", None, None),
    "deadlock": ("setp.lt.u32 %q, %t, 32; @%q bra A; bar.sync 1; bra B; A: bar.sync 2; B:", "deadlock", "barrier",
                 None, None),
    "wide_barrier": ("bar.sync 1, 96;", "deadlock", "fewer threads than the barrier names", None, None),
    "bad_barrier": ("mov.u32 %r, 16; bar.sync %r;", "bad_barrier", "above 15", None, None),
    "two_barriers": ("selp.u32 %r, 2, 1, %p; bar.sync %r, 64;", "bad_barrier", "other threads of its warp", None, None),
    "two_counts": ("selp.u32 %r, 32, 64, %p; bar.arrive 1, %r;", "bad_barrier", "other threads of its warp", None, None),
}  # fmt: skip
START = """.reg .u32 %t, %c, %r; .reg .u64 %in, %out, %a; .reg .pred %p, %q; .shared .align 8 .b8 tile[64];
.local .align 8 .b8 room[16]; .param .b64 p0; .param .b64 p1; .param .b32 p2; .param .b64 p3; .param .b64 p4;
.loc 1 10 0
ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %r, 0;
mad.lo.u32 %c, %c, 100, %t; setp.eq.u32 %p, %c, 135;
.loc 1 20 0"""


def module() -> str:
    text = ", ".join(str(byte) for byte in b"n > 0\0")
    kernels = [
        f".visible .entry {name}(.param .u64 in, .param .u64 out) {{\n{START}\n{fault[0]}\n.loc 1 30 0\nret; }}"
        for name, fault in FAULTS.items()
    ]
    return HEADER + "\n".join(
        [
            '.file 1 "kernel.cu"',
            ".const .align 4 .u32 table[4] = {1, 2, 3, 4};",
            ".global .align 4 .u32 state[4];",
            f".global .align 1 .b8 text[6] = {{{text}}};",
            ".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);",
            ".func endless() { .local .align 8 .b8 room[64];\n.loc 1 20 0\ncall endless; ret; }",
            *kernels,
        ]
    )


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named(name, simulator):
    _, kinds, words, buffer, element = FAULTS[name]
    with Duel(simulator, module()) as duel:
        buffers = (Buffer("in", "input", 400, 4, np.zeros(100, np.float32)), Buffer("out", "output", 400, 4, None))
        step = KernelLaunch(name, (2, 1, 1), (40, 1, 1), 0, False, (Pointer("in"), Pointer("out")))
        outcome = duel.simulate(buffers, (step,), 1.0)
    fault = outcome.fault
    assert fault is not None
    assert fault.kind in kinds.split("|"), fault
    assert words in fault.message
    assert fault.kernel == name
    assert outcome.contents == {}
    if fault.kind != "stack_overflow":
        assert fault.line == 20
    if "barrier" not in fault.kind and fault.kind != "deadlock":
        assert (fault.thread, fault.block) == ((35, 0, 0), (1, 0, 0))
    assert fault.buffer == buffer
    if element is not None:
        assert fault.element == element


FORMATS = [
    ("%d %i %u %x %X %o %c|%%", [-5, 7, 4000000000, 0xBEEF, 0xBEEF, 8, 65]),
    ("%5d|%-5d|%05d|%+d|% d|%.3d|%#x|%8.3u", [42, 42, 42, 42, 42, 7, 255, 9]),
    ("%lld %llu %llx %ld %zu", [-(1 << 40), (1 << 64) - 1, 1 << 60, -9, 1 << 33]),
    ("%f %.2f %10.3f %-10.1f| %e %g %G %a", [1.5, 2.345, -7.25, 3.0, 12345.678, 1e-5, 1e20, 0.1]),
    ("%f %f %F %g", [float("inf"), float("nan"), float("-inf"), -0.0]),
    ("%hd %hhd %hu %hhu %hhx", [70000, 300, 70000, 300, -1]),
    ("%5c|%-3c|%c", [66, 67, 68]),
    ("%*d|%-*d|", [6, 42, 6, 42]),
    ("%.3s|%10s|%-8s|", ["hello", "to", "you"]),
    ("%p", [0x1234567890]),
    ("%d %lld %d %f %d", [1, 1 << 50, 2, 0.5, 3]),
]


def in_c(text: str, arguments: list) -> str:
    """What the C library prints."""
    kinds = re.findall(r"%[-+ #0-9.]*(\*)?[0-9.]*(hh|h|ll|l|z)?([a-zA-Z])", text)
    wide = iter([w for star, length, _ in kinds for w in ([""] if star else []) + [length]])
    values: list = []
    for value in arguments:
        length = next(wide)
        if isinstance(value, str):
            values.append(value.encode())
        elif isinstance(value, float):
            values.append(ctypes.c_double(value))
        else:
            values.append(
                ctypes.c_longlong(value) if length in ("l", "ll", "z") or text == "%p" else ctypes.c_int(value)
            )
    out = ctypes.create_string_buffer(2000)
    ctypes.CDLL(None).snprintf(out, 2000, text.encode(), *values)
    return out.value.decode()


def printing_kernel(number: int, text: str, arguments: list) -> tuple[list[str], str]:
    """Module variables and a kernel that prints as nvcc's code does: a format and a block of arguments.

    It traps unless the value is the number of arguments (CUDA C++ Programming Guide, section 10.32).
    """
    wanted = re.findall(r"(\*)|(hh|h|ll|l|z)?([diuxXocfFeEgGaAsp])(?=[^a-zA-Z]|$| )", re.sub("%%", "", text))
    wide = ["" if star else length or kind for star, length, kind in wanted]
    variables = [f"f{number}"]
    declared = [_string(f"f{number}", text)]
    stores, at = [], 0
    for n, (value, kind) in enumerate(zip(arguments, wide, strict=True)):
        big = isinstance(value, str | float) or kind in ("ll", "l", "z", "p")
        at = -(-at // 8) * 8 if big else at
        if isinstance(value, str):
            declared.append(_string(f"s{number}_{n}", value))
            stores.append(f"mov.u64 %a, s{number}_{n}; cvta.global.u64 %a, %a; st.local.u64 [room+{at}], %a;")
        elif isinstance(value, float):
            bits = int(np.float64(value).view(np.uint64))
            stores.append(f"mov.u64 %a, {bits:#x}; st.local.u64 [room+{at}], %a;")
        else:
            stores.append(f"mov.u64 %a, {value & (1 << 64) - 1:#x}; st.local.u{64 if big else 32} [room+{at}], %a;")
        at += 8 if big else 4
    body = (
        f".visible .entry p{number}() {{ .local .align 8 .b8 room[128]; .reg .b64 %a; .reg .b32 %n; .reg .pred %p; "
        ".param .b64 q0; .param .b64 q1; "
        f".param .b32 r; {' '.join(stores)} mov.u64 %a, {variables[0]}; cvta.global.u64 %a, %a; "
        "st.param.b64 [q0], %a; mov.u64 %a, room; cvta.local.u64 %a, %a; st.param.b64 [q1], %a; "
        f"call.uni (r), vprintf, (q0, q1); ld.param.b32 %n, [r]; setp.ne.s32 %p, %n, {len(arguments)}; @%p trap; ret; }}"
    )
    return declared, body


def _string(name: str, text: str) -> str:
    data = text.encode() + b"\0"
    return f".global .align 1 .b8 {name}[{len(data)}] = {{{', '.join(map(str, data))}}};"


@pytest.fixture(scope="module")
def printer(simulator):
    made = [printing_kernel(number, text, arguments) for number, (text, arguments) in enumerate(FORMATS)]
    declared = [line for lines, _ in made for line in lines]
    external = ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);"
    with Duel(simulator, HEADER + "\n".join([external, *declared, *(body for _, body in made)])) as duel:
        yield duel


@pytest.mark.parametrize("number", range(len(FORMATS)), ids=[text for text, _ in FORMATS])
def test_a_kernel_prints_what_c_prints(number, printer):
    outcome = printer.simulate((), (KernelLaunch(f"p{number}", (1, 1, 1), (1, 1, 1), 0, False, ()),))
    assert outcome.fault is None
    assert outcome.printed == in_c(*FORMATS[number])
