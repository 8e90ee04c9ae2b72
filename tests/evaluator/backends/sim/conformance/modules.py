"""Modules of PTX that run forms: a kernel for a few, each of which has a part of the inputs and results."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from conformance.forms import FIELD, WIDTHS, Form, Launch
from conformance.operands import operands

HEADER = ".version 8.8\n.target sm_90\n.address_size 64\n"
POISON = 0xCD
_SLOT_BYTES = 64
_SHARED_BYTES = 256 * _SLOT_BYTES
_NAMES = {name: f"%{name}" for name in ("in", "out", "slot", "tile", "page", "pages", "first")}
_SHARED = ("%slot", "%tile", "%page", "%first")
_MARK = "// form "
_DEFINITIONS = {
    "conformance_table": (
        ".const .align 16 .u32 conformance_table[8] = {1, 2, 0x80000003, 4, 0xfffffff5, 6, 7, 0x7fffff88};"
    ),
    "conformance_function": (
        ".func (.param .b32 y) conformance_function(.param .b32 x) { .reg .b32 %x; .reg .pred %p; "
        "ld.param::func.b32 %x, [x]; setp.lt.s32 %p, %x, 0; st.param.b32 [y], 77; @%p ret; "
        "mul.lo.u32 %x, %x, 3; st.param::func.b32 [y], %x; ret.uni; }"
    ),
}


@dataclass(frozen=True)
class Place:
    """Where a form's inputs and results are."""

    form: Form
    inputs_at: int
    results_at: int

    @property
    def input_bytes(self) -> int:
        """Of each thread: whole 16 bytes, so that any access is aligned."""
        return _record_bytes(len(self.form.inputs))

    @property
    def result_bytes(self) -> int:
        """Likewise."""
        return _record_bytes(len(self.form.results))


def _record_bytes(words: int) -> int:
    return max(16, -(-words // 2) * 16)


@dataclass(frozen=True)
class Kernel:
    """A kernel called `k`, with all that its launch takes."""

    places: tuple[Place, ...]
    launch: Launch

    @property
    def result_bytes(self) -> int:
        """Of all threads and forms."""
        last = self.places[-1]
        return last.results_at + last.result_bytes * self.launch.threads

    def inputs(self) -> bytes:
        """What its first argument points to."""
        parts = []
        for place in self.places:
            words = operands(place.form)
            padded = np.zeros((len(words), place.input_bytes // 8), "<u8")
            padded[:, : words.shape[1]] = words
            parts.append(padded.tobytes())
        return b"".join(parts)

    def results(self, memory: bytes) -> Iterator[tuple[Form, np.ndarray]]:
        """Each form with its results: a row for each thread, a column for each result, only the bits it has."""
        for place in self.places:
            count = self.launch.threads
            words = np.frombuffer(memory, "<u8", count * place.result_bytes // 8, place.results_at)
            words = words.reshape(count, -1)[:, : len(place.form.results)]
            masks = np.array([(1 << field.bits) - 1 for field in place.form.results], np.uint64)
            yield place.form, words & masks

    def form_at(self, line: int) -> Form | None:
        """The form that a line of the module's text belongs to, from 1."""
        marks = [text for text in self.ptx().splitlines()[:line] if text.startswith(_MARK)]
        return self.places[int(marks[-1].removeprefix(_MARK))].form if marks else None

    def ptx(self) -> str:
        """The whole module."""
        body = "\n".join(line for number, place in enumerate(self.places) for line in _body(place, number))
        shared = any(word in body for word in _SHARED)
        lines = [HEADER, *(text for name, text in _DEFINITIONS.items() if name in body)]
        lines.append(".visible .entry k(.param .u64 inputs, .param .u64 results) {")
        lines.append(
            ".reg .b64 %from, %to, %in, %out, %off; .reg .b32 %t, %size, %block, %slot, %tile, %page, %pages, %first;"
        )
        lines.append("ld.param.u64 %from, [inputs]; ld.param.u64 %to, [results];")
        lines.append("mov.u32 %t, %tid.x; mov.u32 %size, %ntid.x; mov.u32 %block, %ctaid.x;")
        if shared:
            lines.append(f".shared .align 128 .b8 slots[{_SHARED_BYTES}]; .reg .b32 %warp;")
            lines.append("mov.u32 %first, slots; and.b32 %warp, %t, -32;")
            for thread, warp, size in (("%slot", "%tile", _SLOT_BYTES), ("%page", "%pages", 2 * _SLOT_BYTES)):
                lines.append(f"mad.lo.u32 {thread}, %t, {size}, %first; mad.lo.u32 {warp}, %warp, {size}, %first;")
        lines.append("mad.lo.u32 %t, %block, %size, %t;")
        lines += [body, "ret; }", ""]
        return "\n".join(lines)


def _body(place: Place, number: int) -> Iterator[str]:
    """A scope that reads the inputs, runs the form and writes the results."""
    form = place.form
    yield f"{_MARK}{number}"
    yield "{"
    for base, own, size, at in (
        ("%from", "%in", place.input_bytes, place.inputs_at),
        ("%to", "%out", place.result_bytes, place.results_at),
    ):
        yield f"mul.wide.u32 %off, %t, {size}; add.s64 {own}, {base}, %off; add.s64 {own}, {own}, {at};"
    for at, field in enumerate(form.inputs):
        name, source = f"%i{field.letter}", f"[%in+{8 * at}]"
        yield f".reg .{field.register} {name};"
        if field.kind == "pred":
            yield f".reg .b32 {name}w; ld.global.b32 {name}w, {source}; setp.ne.u32 {name}, {name}w, 0;"
        else:
            yield f"ld.global.b{WIDTHS[field.kind]} {name}, {source};"
    for field in form.results:
        yield f".reg .{field.register} %i{field.letter};"
    text = FIELD.sub(lambda match: "%i" + match[1], form.text).replace("{n}", str(number))
    for name, register in _NAMES.items():
        text = text.replace(f"{{{name}}}", register)
    yield text
    for at, field in enumerate(form.results):
        name, target = f"%i{field.letter}", f"[%out+{8 * at}]"
        if field.kind == "pred":
            yield f".reg .b32 {name}w; selp.b32 {name}w, 1, 0, {name}; st.global.b32 {target}, {name}w;"
        else:
            yield f"st.global.b{WIDTHS[field.kind]} {target}, {name};"
    # The next form writes the same shared memory.
    yield "bar.sync 0; }" if any(word in text for word in _SHARED) else "}"


def kernels(forms: Sequence[Form], most: int) -> Iterator[Kernel]:
    """Kernels of at most so many forms each, by launches, in order."""
    for launch in dict.fromkeys(form.launch for form in forms):
        same = [form for form in forms if form.launch == launch]
        for start in range(0, len(same), most):
            yield kernel(same[start : start + most])


def kernel(forms: Sequence[Form]) -> Kernel:
    """One kernel of forms that have the same launch."""
    places, inputs_at, results_at = [], 0, 0
    for form in forms:
        place = Place(form, inputs_at, results_at)
        places.append(place)
        inputs_at += place.input_bytes * form.launch.threads
        results_at += place.result_bytes * form.launch.threads
    return Kernel(tuple(places), forms[0].launch)
