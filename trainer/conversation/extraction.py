"""From a model's answer to a kernel's source text: strict, and in plain words where the answer has another form.

An answer holds exactly one fenced block that is marked `cuda`; what stands around it, and reasoning in
`<think>…</think>`, is not looked at. The launch plan is part of the source, as `// assay:` directives, or is
inferred. Nothing is repaired: what a model learns to write should work everywhere. A wrong form is a turn's outcome,
never an exception.
"""

import re
from dataclasses import dataclass
from typing import Final

from common.contract import MAX_SOURCE_BYTES
from common.launch_directives import parse_directives
from common.launch_plan import LaunchPlan, PlanError

LANGUAGE: Final = "cuda"
FORM: Final = "Answer with one block that starts with a line ```cuda and ends with a line ```."
_MAX_ANSWER_CHARACTERS: Final = 4 << 20


@dataclass(frozen=True)
class Extracted:
    """What was found: a source (with the plan that its directives spell, if any), or a problem. Never both."""

    source: str | None = None
    plan: LaunchPlan | None = None
    problem: str | None = None


def wrapped(source: str) -> str:
    """An answer that holds `source`: what `extract` takes apart again, up to line breaks at its end."""
    longest = max((len(run) for run in re.findall("`+", source)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{LANGUAGE}\n{source.rstrip()}\n{fence}"


def extract(answer: str, *, cut: bool = False) -> Extracted:
    """The kernel in an answer. `cut`: whether the answer was ended by the length limit. Never raises."""
    if len(answer) > _MAX_ANSWER_CHARACTERS:
        return _problem(f"The answer has {len(answer)} characters; more than {_MAX_ANSWER_CHARACTERS} are not read.")
    answer = answer.replace("\r\n", "\n")
    if not answer.strip():
        return _problem(f"The answer is empty. {FORM}")
    spoken = _without_reasoning(answer)
    if spoken is None:
        return _problem(
            f"The answer ends inside its reasoning. Close it with </think>, then write the kernel.{_cut(cut)}"
        )
    blocks, unclosed = _blocks(spoken)
    if unclosed is not None:
        return _problem(
            f"The block that starts in line {unclosed} of the answer has no line ``` at its end.{_cut(cut)}"
        )
    kernels = [block for block in blocks if block.language.lower() == LANGUAGE]
    if not kernels:
        return _problem(_no_kernel(blocks, spoken) + _cut(cut))
    if len(kernels) > 1:
        return _problem(f"The answer has {len(kernels)} blocks marked cuda. Put the whole kernel into one block.")
    return _checked(kernels[0].text)


def _checked(source: str) -> Extracted:
    if not source.strip():
        return _problem("The block is empty. Write the kernel into it.")
    size = len(source.encode("utf-8", "replace"))
    if size > MAX_SOURCE_BYTES:
        return _problem(f"The kernel has {size} bytes; at most {MAX_SOURCE_BYTES} are graded.")
    if "__global__" not in _STRIPPED.sub(" ", source):
        return _problem("The block has no kernel: no function in it is marked __global__.")
    try:
        plan = parse_directives(source)
    except PlanError as error:
        return _problem(f"The launch plan cannot be read: {error}")
    return Extracted(source, plan)


def _problem(said: str) -> Extracted:
    return Extracted(problem=said)


def _cut(cut: bool) -> str:
    return " It was cut off at the length limit: write a shorter answer." if cut else ""


def _without_reasoning(answer: str) -> str | None:
    """What follows the reasoning; None where it does not end. Lines keep their numbers."""
    spoken = 0
    while opening := _REASONING.match(answer, spoken):
        end = answer.find(_END, opening.end())
        if end < 0:
            return None
        spoken = end + len(_END)
    # Prompts may begin the reasoning, so that an answer has its end alone. A word in a kernel's comment is none.
    bare = _without_comments(answer[spoken:])
    end = bare.rfind(_END)
    start = bare.find("<think>", end + 1)
    if start >= 0 and "```" not in bare[end + 1 : start]:
        return None
    if end >= 0:
        spoken += end + len(_END)
    return "\n" * answer.count("\n", 0, spoken) + answer[spoken:]


def _without_comments(text: str) -> str:
    """With spaces for the comments and literals in fenced blocks: every other letter keeps its place."""
    lines = text.split("\n")
    for block in _blocks(text)[0]:
        bare = _STRIPPED.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), block.text).split("\n")[:-1]
        lines[block.line : block.line + len(bare)] = bare
    return "\n".join(lines)


@dataclass(frozen=True)
class _Block:
    language: str
    text: str
    line: int
    """Its first line, counted from 1: that with the fence."""


def _blocks(text: str) -> tuple[list[_Block], int | None]:
    """The fenced blocks (CommonMark 0.31, section 4.5, backticks only), and the line in which one starts that does
    not end.
    """
    blocks: list[_Block] = []
    fence, language, start = "", "", 0
    inside: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not fence:
            if opening := _OPENING.fullmatch(line):
                fence, language, start, inside = opening["fence"], opening["language"], number, []
        elif (closing := _CLOSING.fullmatch(line)) and len(closing["fence"]) >= len(fence):
            blocks.append(_Block(language, "\n".join([*inside, ""]), start))
            fence = ""
        else:
            inside.append(line)
    return blocks, start if fence else None


def _no_kernel(blocks: list[_Block], spoken: str) -> str:
    if blocks:
        marked = sorted({f"marked {block.language!r}" if block.language else "not marked" for block in blocks})
        return f"No block is marked cuda (found: {', '.join(marked)}). {FORM}"
    if "```" in spoken:
        return f"The line ```cuda must stand alone, and so must the line ``` at the end. {FORM}"
    return f"The answer has no fenced block. {FORM}"


_REASONING: Final = re.compile(r"\s*+<think>")
_END: Final = "</think>"
_OPENING: Final = re.compile(r" {0,3}+(?P<fence>`{3,}+)[ \t]*+(?P<language>[^\s`]*+)[ \t]*+")
_CLOSING: Final = re.compile(r" {0,3}(?P<fence>`{3,})[ \t]*")

# Comments and literals as the C++ standard has them (lex.comment, lex.string); a stray quote ends with its line.
# What is not closed goes to the end, so that nothing is read again from each place where it could have begun.
_LITERAL: Final = (
    r'(?<!\w)(?:u8|[uUL])?R"(?P<mark>[^()\\\s"]{0,16})\([\s\S]*?(?:\)(?P=mark)"|\Z)|"(?:\\.|[^"\\\n])*+"?|'
    r"(?<!\w)'(?:\\.|[^'\\\n])*+'?"
)
_COMMENT: Final = r"//[^\n]*|/\*[\s\S]*?(?:\*/|\Z)"
_STRIPPED: Final = re.compile(f"{_LITERAL}|{_COMMENT}")
_PREPROCESSOR: Final = r"^[ \t]*#[^\n]*"
_DIRECTIVE: Final = r"^// assay:[^\n]*"
_OPERATOR: Final = r"<<=|>>=|<=>|\.\.\.|->\*|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|##"
_NUMBER_OR_NAME: Final = r"\.?\d(?:[eEpP][+-]|'\w|[\w.])*|\w+"
_TOKEN: Final = re.compile(
    f"(?P<directive>{_DIRECTIVE})|(?P<comment>{_COMMENT})|(?P<line>{_PREPROCESSOR})|{_LITERAL}|{_NUMBER_OR_NAME}"
    f"|{_OPERATOR}|\\S",
    re.MULTILINE,
)
_STRING: Final = r'("(?:\\.|[^"\\\n])*+"?)'
_LINE_COMMENTS: Final = re.compile(f"{_STRING}|{_COMMENT}")
_SPACES: Final = re.compile(rf"{_STRING}|\s+")
_DIRECTIVES: Final = re.compile(_DIRECTIVE, re.MULTILINE)


def canonical_source(source: str) -> str:
    """The source without comments and without white space that means nothing: equal for the same kernel.

    Launch directives stay, since another launch is another kernel.
    """
    joined = source.replace("\r\n", "\n").replace("\\\n", "")
    tokens: list[str] = []
    directives = 0
    for found in _TOKEN.finditer(joined):
        if found["directive"]:
            directives += 1
            tokens.append("\n" + " ".join(found[0].split()) + "\n")
        elif found["line"]:
            bare = _LINE_COMMENTS.sub(lambda part: part[1] or " ", found[0])
            tokens.append("\n" + _SPACES.sub(lambda part: part[1] or " ", bare).strip() + "\n")
        elif not found["comment"]:
            tokens.append(found[0])
    # Some may stand in what is a comment here, such as behind a line that ends with a backslash.
    if directives < len(_DIRECTIVES.findall(source)) and (plan := _plan_of(source)):
        tokens.append(plan)
    return " ".join(tokens)


def _plan_of(source: str) -> str:
    try:
        return str(parse_directives(source) or "")
    except PlanError as error:
        return str(error)


_WORD: Final = re.compile(r"\w+|\S")
_ATTRIBUTE: Final = re.compile(r"__\w+__|alignas")
"""What may stand before a kernel's name with arguments of its own: `__launch_bounds__ (256)`."""


def nameless_source(source: str) -> str:
    """As `canonical_source`, and equal for kernels that differ in the names of their `__global__` functions too."""
    bare = canonical_source(source)
    # A launch line and a call name the kernel as well, so the name goes wherever it stands as a word; all of them at
    # once, for one may be named as another is to be.
    new = {name: f"kernel{number}" for number, name in enumerate(_kernel_names(bare))}
    return re.sub(r"\w+", lambda word: new.get(word[0], word[0]), bare)


def _kernel_names(bare: str) -> dict[str, None]:
    names: dict[str, None] = {}
    declares, depth, last = False, 0, ""
    for word in _WORD.findall(bare):
        if word == "__global__":
            declares, depth = True, 0
        elif not declares:
            continue
        elif word == "(" and not depth and last.isidentifier() and not _ATTRIBUTE.fullmatch(last):
            names[last] = None
            declares = False
        elif word in "()":
            depth += 1 if word == "(" else -1
        elif word in ";{}":
            declares = False
        last = word
    return names


_STRATEGIES: Final = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("shared memory", r"\b__shared__\b"),
        ("vectorised access", r"\b(?:float|int|uint|half|double|uchar|char)[248]\b|\b__half2\b|\bmake_\w+[24]\b"),
        ("warp shuffles", r"\b__shfl\w*_sync\b|\b__reduce_\w+_sync\b"),
        ("warp votes", r"\b__(?:ballot|any|all|match_any|match_all)_sync\b"),
        ("grid-stride loop", r"\+=\s*(?:\w+\s*\*\s*)?(?:gridDim|blockDim)\.|\bstride\s*=[^;=\n]*gridDim"),
        ("unrolled loops", r"#\s*pragma\s+unroll"),
        ("atomics", r"\batomic[A-Z]\w*\b"),
        ("tensor cores", r"\bwmma\b|\bmma\.sync\b|\bwgmma\b"),
        ("asynchronous copies", r"\bcp\.async\b|\bmemcpy_async\b|\b__pipeline_\w+\b"),
        ("read-only loads", r"\b__ldg\b"),
        ("launch bounds", r"\b__launch_bounds__\b"),
        ("fast mathematics", r"\b__(?:expf|logf|fdividef|powf|sinf|cosf)\b|\brsqrtf\b"),
        ("fused multiply-add", r"\b(?:__)?fmaf?(?:_rn)?\s*\("),
        ("constant memory", r"\b__constant__\b"),
        ("cooperative groups", r"\bcooperative_groups\b"),
    )
)


def strategies(source: str) -> tuple[str, ...]:
    """What a kernel tries in order to be fast, read off its text without comments and strings.

    Words that a transcript can count; nothing is graded by them.
    """
    directives = source.count("\n// assay: launch") + source.startswith("// assay: launch")
    bare = _STRIPPED.sub(" ", source)
    found = [name for name, pattern in _STRATEGIES if pattern.search(bare)]
    return (*found, "several launches") if directives > 1 else tuple(found)
