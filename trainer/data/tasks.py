"""What is asked of the agents: the problems of an evaluator in many different words, split for good by a hash.

A task is one prompt: a problem, said in one of thousands of ways (order, opening, naming, sizes, what to aim for, how
the parameters are shown, where it is used). Whether it is for training or held out hangs on the hash of its id alone,
and its id on its text, so the same prompt is on the same side in every run, however many others are asked for. All
that a wording adds is true of the problem or a matter of taste: none changes what is graded.
"""

import random
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from math import prod
from typing import Final, Literal

from common.contract import ProblemFace, Reference, TensorFace
from trainer.errors import ConfigurationError

HELD_OUT_SHARE: Final = 0.2
_MAX_TRIES_A_TASK: Final = 60


@dataclass(frozen=True)
class Task:
    """One prompt."""

    id: str
    """The problem's id and a hash of the text."""
    problem: str
    """Id of the problem at the evaluator; with a reference, the operation's name."""
    tier: int
    """Of the problem: 0 basic, 1 intermediate, 2 complex, 3 advanced."""
    text: str
    """What is asked, whole."""
    held_out: bool
    """Never trained on."""
    # Not part of the hash, which its dictionary of shapes has none of: the id says which task it is.
    reference: Reference | None = field(default=None, hash=False)
    """What states the problem, where the evaluator does not know it."""
    sizes: Mapping[str, int] | None = field(default=None, hash=False)
    """Where its kernels are graded at these sizes too, and timed at them."""


_SHAPE: Final = re.compile(r"_\d+(?:x\d+)*(?=-[0-9a-f]{12}$)")


def is_held_out(task_id: str, share: float = HELD_OUT_SHARE) -> bool:
    """Whether a task with this id is never trained on: for `share` of all ids, which never change.

    The shape of an operation, as in `silu_5000-…`, decides nothing: a text that does not say it is one text.
    """
    named = _SHAPE.sub("", task_id)
    return int.from_bytes(blake2b(f"split {named}".encode(), digest_size=8).digest(), "big") < share * (1 << 64)


def training_tasks(
    faces: Sequence[ProblemFace],
    variants: int,
    *,
    wording: Literal["full", "brief"] = "full",
    held_out_share: float = HELD_OUT_SHARE,
) -> tuple[Task, ...]:
    """`variants` tasks for each problem, none of them held out; problem by problem. More variants keep the first.

    Raises ConfigurationError where a problem cannot be said in so many ways.
    """
    return tuple(task for face in faces for task in _some(face, variants, wording, held_out_share, held_out=False))


def held_out_tasks(
    faces: Sequence[ProblemFace],
    count: int = 200,
    *,
    wording: Literal["full", "brief"] = "full",
    held_out_share: float = HELD_OUT_SHARE,
) -> tuple[Task, ...]:
    """`count` tasks that are never trained on, shared out evenly among the problems, in turn.

    The same ones whenever the same is asked. Raises ConfigurationError as `training_tasks`, and for no problems.
    """
    if not faces:
        raise ConfigurationError("There are no problems to ask.", "Name one in tasks.problems.")
    each = -(-count // len(faces))
    columns = [_some(face, each, wording, held_out_share, held_out=True) for face in faces]
    return tuple(column[row] for row in range(each) for column in columns)[:count]


def chosen(faces: Sequence[ProblemFace], names: Sequence[str]) -> tuple[ProblemFace, ...]:
    """The problems of these ids, in this order; all for no names. Raises ConfigurationError for an unknown one."""
    known = {face.id: face for face in faces}
    refuse_unknown_problems(names, known)
    return tuple(known[name] for name in names) if names else tuple(faces)


def refuse_unknown_problems(names: Sequence[str], known: Collection[str]) -> None:
    """Raises ConfigurationError for a name that the evaluator, which has `known`, does not know."""
    for name in names:
        if name not in known:
            raise ConfigurationError(
                f"The evaluator has no problem {name!r}.", f"It has {', '.join(known)}: fix tasks.problems."
            )


def _some(
    face: ProblemFace, count: int, wording: Literal["full", "brief"], share: float, *, held_out: bool
) -> tuple[Task, ...]:
    most = max(count, 1) * _MAX_TRIES_A_TASK
    found: dict[str, Task] = {}
    for text in islice(_wordings(face, wording), most):
        task_id = f"{face.id}-{blake2b(text.encode(), digest_size=6).hexdigest()}"
        if is_held_out(task_id, share) is held_out:
            found.setdefault(task_id, Task(task_id, face.id, face.tier, text, held_out))
        if len(found) == count:
            return tuple(found.values())
    purpose = "to hold out" if held_out else "to train on"
    raise ConfigurationError(
        f"The problem {face.id} has only {len(found)} {wording} wordings {purpose}, and {count} were asked for.",
        "Lower tasks.variants or tasks.held_out, name more problems, or set tasks.wording to full.",
    )


def _wordings(face: ProblemFace, wording: Literal["full", "brief"]) -> Iterator[str]:
    """Texts for a problem without end, always the same ones in the same order."""
    choices = _FULL if wording == "full" else _BRIEF
    lengths = [len(options) for options in choices.values()]
    # Seeded by a string: the same on every machine and in every process.
    rng = random.Random(f"wordings of {face.id}")
    order = list(range(prod(lengths)))
    rng.shuffle(order)
    say = _full if wording == "full" else _brief
    for number in order:
        picked: dict[str, str] = {}
        for name, options in choices.items():
            number, index = divmod(number, len(options))
            picked[name] = options[index]
        yield say(face, picked)


_FULL: Final[dict[str, tuple[str, ...]]] = {
    "opening": (
        "Write a CUDA kernel for this: {title}.",
        "Task: {title}, in CUDA.",
        "{title}: implement it as a CUDA kernel.",
        "Please implement {title} for an NVIDIA GPU.",
        "I need a fast and correct CUDA implementation of {title}.",
        "Implement the operation `{id}` in CUDA C++.",
        "Your job is a CUDA kernel. The operation: {title}.",
        "A kernel is wanted for {title}.",
        "Replace the PyTorch call `{baseline}` by a CUDA kernel.",
    ),
    "context": (
        "",
        "",
        "It runs in the inner loop of a model's inference.",
        "It is part of a library: others will call it with sizes of their own.",
        "It will be called many times in training.",
        "It stands between two other kernels, with its tensors in global memory.",
    ),
    "order": ("statement first", "parameters first"),
    "parameters": ("list", "prototype", "start", "sentence"),
    "naming": (
        "",
        "Name the kernel `{id}_kernel`.",
        "Call the kernel `{camel}`.",
        "The kernel's name is up to you.",
        "Name it `solve`.",
    ),
    "sizes": ("", "Typical sizes: {example}.", "Also used at {other}.", "Its speed is measured at {timing}."),
    "aim": (
        "",
        "Being right counts first, speed second.",
        "Make it as fast as you can.",
        "It competes with `{baseline}`.",
    ),
}

_BRIEF: Final[dict[str, tuple[str, ...]]] = {
    "opening": (
        "{id}: {short}.",
        "{title}: {short}.",
        "Compute this: {short}.",
        "{short}.",
        "Kernel for {title}. {short}.",
        "CUDA: {short}.",
        "Task {id}. {short}.",
        "Write {id}: {short}.",
    ),
    "parameters": ("prose", "prototype"),
    "naming": ("", "Name: {id}_kernel.", "Name: {camel}.", "Name: solve.", "Name: {id}.", "Name: k."),
    "sizes": ("", "Sizes such as {example}.", "Sizes such as {other}.", "Timed at {timing}."),
    "aim": ("", "Right first.", "Be fast."),
}


def _full(face: ProblemFace, picked: dict[str, str]) -> str:
    words = _words(face)
    shown = {
        "list": _list_of(face),
        "prototype": f"Parameters, in order:\n{_prototype(face)}",
        "start": f"You may start from this:\n```\n{face.starter.strip()}\n```",
        "sentence": _sentence(face),
    }[picked["parameters"]]
    body = [face.statement, shown] if picked["order"] == "statement first" else [shown, face.statement]
    named = picked["parameters"] in ("prototype", "start")
    wanted = ("sizes", "aim", "context") if named else ("naming", "sizes", "aim", "context")
    ends = [picked[name].format(**words) for name in wanted]
    first = _sentence_of(picked["opening"], words)
    return "\n\n".join(part for part in (first, *body, " ".join(end for end in ends if end)) if part)


def _brief(face: ProblemFace, picked: dict[str, str]) -> str:
    words = _words(face)
    shown = _prose(face) if picked["parameters"] == "prose" else f"({_declared(face)})"
    parts = [_sentence_of(picked["opening"], words), shown]
    ends = [picked[name].format(**words) for name in ("naming", "sizes", "aim")]
    return " ".join(part for part in (*parts, *ends) if part)


def _words(face: ProblemFace) -> dict[str, str]:
    title = face.title if face.title[1:2].isupper() or not face.title[0].isalpha() else _lower(face.title)
    return {
        "id": face.id,
        "title": title,
        "camel": re.sub(r"_(\w)", lambda found: found[1].upper(), face.id),
        "short": _SHORT_END.split(face.statement)[0],
        "baseline": face.baseline,
        "example": _sizes(face.example_sizes[0]),
        "other": _sizes(face.example_sizes[-1]),
        "timing": _sizes(face.timing_sizes),
    }


_SHORT_END: Final = re.compile(r"\.(?:\s|$)|, in float32|, for (?:a )?(?:row-major|contiguous)|;(?![^(]*\))")
"""Where the first thing that a statement says is said."""


def _sentence_of(pattern: str, words: dict[str, str]) -> str:
    """Names and formulas are spelled as they are, also where a sentence begins with them."""
    said = pattern.format(**words)
    return said[:1].upper() + said[1:] if pattern.startswith("{title}") else said


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]


def _sizes(sizes: dict[str, int]) -> str:
    """In words for a problem of fixed shapes, which has no sizes."""
    return ", ".join(f"{name} = {value}" for name, value in sizes.items()) or "the shapes above"


_C_TYPES: Final = {
    "float64": "double",
    "float32": "float",
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "int64": "long long",
    "uint64": "unsigned long long",
    "int32": "int",
    "uint32": "unsigned int",
    "int16": "short",
    "uint16": "unsigned short",
    "int8": "signed char",
    "uint8": "unsigned char",
}


def _declared(face: ProblemFace) -> str:
    inputs = [f"const {_C_TYPES[tensor.dtype]}* {tensor.name}" for tensor in face.inputs]
    outputs = [f"{_C_TYPES[tensor.dtype]}* {tensor.name}" for tensor in face.outputs]
    scalars = [f"{_C_TYPES[scalar.dtype]} {scalar.name}" for scalar in face.scalars]
    return ", ".join([*inputs, *outputs, *scalars, *(f"int {size}" for size in face.sizes)])


def _prototype(face: ProblemFace) -> str:
    return f"__global__ void {face.id}_kernel({_declared(face)});"


def _shaped(tensor: TensorFace) -> str:
    return f"{tensor.name}[{', '.join(tensor.shape)}]"


def _list_of(face: ProblemFace) -> str:
    lines = [f"- input `{tensor.name}`: {tensor.dtype} [{', '.join(tensor.shape)}]" for tensor in face.inputs]
    lines += [f"- output `{tensor.name}`: {tensor.dtype} [{', '.join(tensor.shape)}]" for tensor in face.outputs]
    lines += [f"- scalar `{scalar.name}`: {scalar.dtype}" for scalar in face.scalars]
    return "\n".join([*lines, *(f"- size `{size}`: int" for size in face.sizes)])


def _sentence(face: ProblemFace) -> str:
    inputs = ", ".join(f"{_shaped(tensor)} ({tensor.dtype})" for tensor in face.inputs)
    outputs = ", ".join(f"{_shaped(tensor)} ({tensor.dtype})" for tensor in face.outputs)
    numbers = ", ".join([*(f"{scalar.name} ({scalar.dtype})" for scalar in face.scalars), *face.sizes])
    return f"The kernel reads {inputs} and writes {outputs}; it is also given {numbers}."


def _prose(face: ProblemFace) -> str:
    numbers = ", ".join([*(scalar.name for scalar in face.scalars), *face.sizes])
    inputs, outputs = (
        ", ".join(_shaped(tensor) + f" {tensor.dtype}" * (tensor.dtype != "float32") for tensor in tensors)
        for tensors in (face.inputs, face.outputs)
    )
    return f"{inputs}; {numbers} -> {outputs}."
