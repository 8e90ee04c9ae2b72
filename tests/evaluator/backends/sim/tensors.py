"""Tensor cores, matrix moves, background copies and barrier objects, one element at a time, for the interpreter.

The places of elements are written down as the PTX ISA (9.7.14 and 9.7.15) gives them, type by type. For `wmma`, whose
layout is opaque, a layout of its own is used: what a kernel does must not depend on it.
"""

from fractions import Fraction
from math import isinf, isnan
from typing import Any

from arithmetic import F16, F32, F64, LIBM, decode, encode

from evaluator.backends.sim.ptx.model import Address, Instruction, Register, Vector

MATRICES = {"mma", "wmma", "ldmatrix", "stmatrix", "movmatrix"}
BITS = {
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "f32": 32,
    "f64": 64,
    "s8": 8,
    "u8": 8,
    "s4": 4,
    "u4": 4,
    "b1": 1,
    "s32": 32,
}


def _shape(i: Instruction) -> tuple[int, int, int]:
    name = next(m for m in i.modifiers if m[0] == "m" and m[1:2].isdigit() and "k" in m)
    m, rest = name[1:].split("n")
    n, k = rest.split("k")
    return int(m), int(n), int(k)


def _a(kind: str, m: int, k: int, lane: int, i: int) -> tuple[int, int]:
    """Row and column of element i of a lane's fragment of A."""
    g, t = lane >> 2, lane % 4
    if kind in ("f16", "bf16"):
        if k == 8:
            return (g if i < 2 else g + 8), t * 2 + (i & 1)
        return (g if i < 2 or 4 <= i < 6 else g + 8), t * 2 + (i & 1) + (8 if i >= 4 else 0)
    if kind == "tf32":
        if k == 4:
            return (g if i == 0 else g + 8), t
        return (g if i in (0, 2) else g + 8), (t if i < 2 else t + 4)
    if kind == "f64":
        if m == 8:
            return g, t
        return (g if i % 2 == 0 else g + 8), t + 4 * (i // 2)
    each = {"s8": 4, "u8": 4, "s4": 8, "u4": 8, "b1": 32}[kind]
    if m == 8:
        return g, t * each + i
    if k == 4 * each:
        return (g if i < each else g + 8), t * each + i % each
    first = i < each or 2 * each <= i < 3 * each
    return (g if first else g + 8), t * each + i % each + (4 * each if i >= 2 * each else 0)


def _b(kind: str, lane: int, i: int) -> tuple[int, int]:
    g, t = lane >> 2, lane % 4
    each = {"f16": 2, "bf16": 2, "tf32": 1, "f64": 1, "s8": 4, "u8": 4, "s4": 8, "u4": 8, "b1": 32}[kind]
    return t * each + i % each + 4 * each * (i // each), g


def _c(lane: int, i: int) -> tuple[int, int]:
    return (lane >> 2 if i < 2 else (lane >> 2) + 8), lane % 4 * 2 + (i & 1)


def _own(rows: int, cols: int, lane: int, i: int) -> tuple[int, int]:
    """Our own layout of wmma: lanes one after the other along rows; what is left over repeats."""
    return divmod((lane * (rows * cols // 32) + i % (rows * cols // 32)) % (rows * cols), cols)


def _elements(words: tuple[int, ...], kind: str) -> list[int]:
    bits = BITS[kind]
    width = 64 if kind == "f64" else 32
    return [word >> at & (1 << bits) - 1 for word in words for at in range(0, width, bits)]


def _number(kind: str, bits: int) -> "int | float":
    if kind == "f16":
        return decode(F16, bits)
    if kind == "bf16":
        return decode(F32, bits << 16)
    if kind == "tf32":
        return decode(F32, bits & 0xFFFFE000)
    if kind == "f32":
        return decode(F32, bits)
    if kind == "f64":
        return decode(F64, bits)
    if kind[0] == "s":
        return bits - (1 << BITS[kind]) if bits >> (BITS[kind] - 1) else bits
    return bits


def _rounded(kind: str, value: "int | float", saturate: bool) -> int:
    if kind == "s32":
        if saturate:
            value = min(max(value, -(1 << 31)), (1 << 31) - 1)
        return int(value) & 0xFFFFFFFF
    if kind == "f16":
        return encode(F16, float(value))
    if kind == "f64":
        return encode(F64, float(value))
    if isnan(value) or isinf(value) or abs(value) >= 2.0**128:
        return encode(F32, value if isnan(value) else float("inf") if value > 0 else float("-inf"))
    return encode(F32, Fraction(value) if value else float(value), "rz")


def operands(frame: Any, i: Instruction) -> tuple:
    """Every operand's value: addresses, and tuples of registers."""
    found = []
    for operand in i.operands:
        if isinstance(operand, Address):
            found.append(frame.target(i, operand))
        elif isinstance(operand, Vector):
            found.append(tuple(frame.value(part, 64 if i.type == "f64" else 32) for part in operand.parts))
        else:
            found.append(frame.value(operand, 32))
    return (frame, None, tuple(found))


def finish(frame: Any, i: Instruction, result: tuple[int, ...]) -> None:
    """Write the destination's registers."""
    if not result:
        return
    parts = i.operands[0].parts if isinstance(i.operands[0], Vector) else (i.operands[0],)
    for part, word in zip(parts, result, strict=True):
        frame.set(part, word)


def together(machine: Any, group: list[Any]) -> list[tuple[int, ...]]:
    """One matrix instruction for all 32 threads of a warp."""
    i = group[0].stop.instruction
    assert len(group) == 32, "a matrix instruction takes a whole warp"
    values = [thread.stop.operands[2] for thread in group]
    if i.opcode == "movmatrix":
        return _moved([v[1] for v in values])
    if i.opcode in ("ldmatrix", "stmatrix"):
        return (_loaded if i.opcode == "ldmatrix" else _stored)(machine, i, values)
    if i.opcode == "mma":
        return _multiplied(i, values, wmma=False)
    if i.modifiers[0] == "mma":
        return _multiplied(i, values, wmma=True)
    return _fragments(machine, i, group, values)


def _multiplied(i: Instruction, values: list[tuple], wmma: bool) -> list[tuple[int, ...]]:
    m, n, k = _shape(i)
    kinds = [word for word in i.modifiers if word in BITS]
    if len(kinds) == 2:
        kinds = [kinds[0], "f16", "f16", kinds[1]]
    d, a, b, c = kinds
    left = [[0.0] * k for _ in range(m)]
    right = [[0.0] * n for _ in range(k)]
    for lane, (_, mine, theirs, _) in enumerate(values):
        for e, bits in enumerate(_elements(mine, a)):
            row, col = _own(m, k, lane, e) if wmma else _a(a, m, k, lane, e)
            left[row][col] = _number(a, bits)
        for e, bits in enumerate(_elements(theirs, b)):
            row, col = _own(k, n, lane, e) if wmma else _b(b, lane, e)
            right[row][col] = _number(b, bits)
    results = []
    for lane, (_, _, _, old) in enumerate(values):
        new = []
        for e, bits in enumerate(_elements(old, c)):
            row, col = _own(m, n, lane, e) if wmma else _c(lane, e)
            start = _number(c, bits)
            pairs = [(left[row][step], right[step][col]) for step in range(k)]
            new.append(_rounded(d, _sum(i, a, pairs, start), "satfinite" in i.modifiers))
        size = BITS[d]
        results.append(_packed(new, size))
    return results


def _packed(elements: list[int], bits: int) -> tuple[int, ...]:
    if bits != 16:
        return tuple(elements)
    return tuple(low | high << 16 for low, high in zip(elements[::2], elements[1::2], strict=True))


def _sum(i: Instruction, kind: str, pairs: list, start: "int | float") -> "int | float":
    if kind == "b1":
        return start + sum((int(x) & int(y)) if "and" in i.modifiers else (int(x) ^ int(y)) for x, y in pairs)
    if kind == "f64":
        for x, y in pairs:
            start = LIBM.fma(x, y, start)
        return start
    total = 0.0 if isinstance(start, float) else 0
    for x, y in pairs:
        total += x * y
    return total + start


def _fragments(machine: Any, i: Instruction, group: list[Any], values: list[tuple]) -> list[tuple[int, ...]]:
    m, n, k = _shape(i)
    load, which, kind = i.modifiers[0] == "load", i.modifiers[1], i.modifiers[-1]
    rows, cols = {"a": (m, k), "b": (k, n)}.get(which, (m, n))
    size, width = BITS[kind] // 8, 64 if kind == "f64" else 32
    results = []
    for lane, operand in enumerate(values):
        place, words = (operand[1], operand[0]) if load else (operand[0], operand[1])
        stride = operand[2] if len(operand) > 2 else cols if "row" in i.modifiers else rows
        new = []
        for e in range(len(words) * width // BITS[kind]):
            row, col = _own(rows, cols, lane, e)
            at = place + size * (row * stride + col if "row" in i.modifiers else col * stride + row)
            if load:
                new.append(int.from_bytes(machine.read(at, size, group[lane].local), "little"))
            else:
                bits = _elements(words, kind)[e]
                machine.write(at, bits.to_bytes(size, "little"), group[lane].local)
        each = width // BITS[kind]
        results.append(
            tuple(
                sum(bits << j * BITS[kind] for j, bits in enumerate(new[at : at + each]))
                for at in range(0, len(new), each)
            )
        )
    return results


def _matrix_words(i: Instruction) -> tuple[int, bool]:
    return next(int(m[1]) for m in i.modifiers if m in ("x1", "x2", "x4")), "trans" in i.modifiers


def _loaded(machine: Any, i: Instruction, values: list[tuple]) -> list[tuple[int, ...]]:
    count, transposed = _matrix_words(i)
    matrices = []
    for number in range(count):
        rows = [machine.read(values[8 * number + row][1], 16) for row in range(8)]
        halves = [[int.from_bytes(row[at : at + 2], "little") for at in range(0, 16, 2)] for row in rows]
        matrices.append([list(column) for column in zip(*halves, strict=True)] if transposed else halves)
    return [tuple(_two(matrix, lane) for matrix in matrices) for lane in range(32)]


def _two(matrix: list[list[int]], lane: int) -> int:
    row, col = lane // 4, lane % 4 * 2
    return matrix[row][col] | matrix[row][col + 1] << 16


def _matrix_of(words: list[int]) -> list[list[int]]:
    return [[words[4 * row + col // 2] >> 16 * (col % 2) & 0xFFFF for col in range(8)] for row in range(8)]


def _stored(machine: Any, i: Instruction, values: list[tuple]) -> list[tuple[int, ...]]:
    count, transposed = _matrix_words(i)
    for number in range(count):
        matrix = _matrix_of([operand[1][number] for operand in values])
        if transposed:
            matrix = [list(column) for column in zip(*matrix, strict=True)]
        for row in range(8):
            data = b"".join(half.to_bytes(2, "little") for half in matrix[row])
            machine.write(values[8 * number + row][0], data)
    return [()] * 32


def _moved(words: list[int]) -> list[tuple[int, ...]]:
    matrix = [list(column) for column in zip(*_matrix_of(words), strict=True)]
    return [(_two(matrix, lane),) for lane in range(32)]


# Copies and barriers: a thread's copies land when it waits for them.


def copy(frame: Any, i: Instruction) -> None:
    """`cp.async` in all its forms, for one thread."""
    thread = frame.thread
    words = i.modifiers[1:]
    if words == ("commit_group",):
        thread.committed += 1
    elif words[0] in ("wait_group", "wait_all"):
        but = i.operands[0].bits if words[0] == "wait_group" else -1
        land(thread, lambda group: but < 0 or thread.committed - group > but)
    elif words[0] == "mbarrier":
        address = frame.target(i, i.operands[0])
        if "noinc" not in words:
            thread.machine.barriers[address][1] += 1
        thread.copies.append((address, None, thread.committed))
    else:
        target, source, size, *more = i.operands
        more = more[:-1] if "L2::cache_hint" in words else more
        taken = size.bits
        if more:
            ignored = isinstance(more[0], Register) and frame.width(more[0]) == 1
            taken = (
                0
                if ignored and frame.value(more[0], 1)
                else taken
                if ignored
                else min(frame.value(more[0], 32), taken)
            )
        origin = frame.value(source.base, 64) + source.offset
        data = b"".join(thread.machine.read(origin + at, 1) for at in range(taken))
        thread.copies.append((frame.target(i, target), data.ljust(size.bits, b"\0"), thread.committed))


def land(thread: Any, wanted: Any) -> None:
    """Let those of a thread's copies land whose group is wanted."""
    for address, data, group in [c for c in thread.copies if wanted(c[2])]:
        thread.copies.remove((address, data, group))
        if data is None:
            _arrived(thread.machine, address, 1)
        else:
            thread.machine.write(address, data)


def _arrived(machine: Any, address: int, count: int) -> None:
    barrier = machine.barriers[address]
    barrier[1] -= count
    assert barrier[1] >= 0
    if barrier[1] == 0:
        barrier[0] ^= 1
        barrier[1] = barrier[2]


def barrier(frame: Any, i: Instruction) -> None:
    """`mbarrier` without transfers: [phase, pending, expected] by address; the state is the phase."""
    what = i.modifiers[0]
    barriers = frame.machine.barriers
    addresses = [frame.target(i, o) for o in i.operands if isinstance(o, Address)]
    if what == "init":
        count = frame.value(i.operands[1], 32)
        barriers[addresses[0]] = [0, count, count]
    elif what in ("arrive", "arrive_drop"):
        count = frame.value(i.operands[2], 32) if len(i.operands) > 2 else 1
        frame.set(i.operands[0], barriers[addresses[0]][0])
        if what == "arrive_drop":
            barriers[addresses[0]][2] -= count
        _arrived(frame.machine, addresses[0], count)
    elif what in ("test_wait", "try_wait"):
        for warp in frame.thread.block.warps:
            for thread in warp:
                last = [n for n, c in enumerate(thread.copies) if c[1] is None and c[0] == addresses[0]]
                if last:
                    before = thread.copies[: last[-1] + 1]
                    thread.copies = [*before, *thread.copies[last[-1] + 1 :]]
                    for each in before:
                        thread.copies.remove(each)
                        if each[1] is None:
                            _arrived(thread.machine, each[0], 1)
                        else:
                            thread.machine.write(each[0], each[1])
        phase = frame.value(i.operands[2], 64) & 1
        frame.set(i.operands[0], int(barriers[addresses[0]][0] != phase))
    else:
        assert what == "inval"
