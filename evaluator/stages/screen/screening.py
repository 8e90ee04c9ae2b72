"""A static look at the source: what it contains, on which lines, why that matters, and whether it breaks a rule.

In the device tier host code never runs, so nearly everything is only noted. A submission is `rejected` for one thing:
asking the compiler to read a file of the grading machine. The sandbox enforces the same by what it can see; the
screen says it early and in words. Text that does not parse is no finding: the compiler says that better.

Risk is 1 - product(1 - weight) over the *different* rules that were noticed (a rule counts once, however often it
fired), and exactly 1 when a rule of the policy's `rejects` fired. The weights stand in `RULES`: up to 0.02 for what
honest kernels do every day, about 0.1 for what is rarely needed, 0.3 and more for what is hardly ever honest.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from common.contract import Finding, Phase, Screening, Severity, Status
from evaluator.errors import Ruling
from evaluator.stages.screen.lexer import SourceText, without_trigraphs
from evaluator.stages.screen.preprocessor import (
    INCLUDES,
    PROBES,
    computed_text,
    expansion_sizes,
    judge_path,
    macros,
    reaching,
)
from evaluator.stages.screen.syntax import Outline, outline


@dataclass(frozen=True)
class Rule:
    """One thing that the screen looks for."""

    severity: Severity
    weight: float
    """Share of the risk that is left."""
    why: str
    """Why it matters and what to do instead."""


_NOTE, _WARNING, _ERROR = Severity.NOTE, Severity.WARNING, Severity.ERROR
_HOST = "Host code is not run here: only kernels are, as the launch plan says. "

RULES: dict[str, Rule] = {
    # Breaking a rule of grading.
    "host-file-include": Rule(
        _ERROR,
        1.0,
        "This asks the compiler to read a file of the machine that grades. A submission is one file plus the CUDA "
        "toolkit's headers: include those by name (`#include <cuda_fp16.h>`) and paste everything else in.",
    ),
    "host-file-embed": Rule(
        _ERROR,
        1.0,
        "This pulls a file of the machine that grades into the binary. Put constant data into the source, for "
        "example as a `__constant__` array.",
    ),
    "host-file-incbin": Rule(
        _ERROR,
        1.0,
        "This assembler directive pulls a file of the machine that grades into the binary. Put constant data into "
        "the source, for example as a `__constant__` array.",
    ),
    # Preprocessor.
    "host-file-probe": Rule(
        _WARNING,
        0.5,
        "This asks whether a file exists on the machine that grades. Leave it out: nothing there is yours.",
    ),
    "odd-include": Rule(
        _WARNING, 0.3, "Only headers of the CUDA toolkit and of C++ can be included, by their plain names."
    ),
    "missing-header": Rule(
        _NOTE, 0.0, "A submission is one file, so a header of your own is not there. Paste what you need from it."
    ),
    "library-header": Rule(
        _NOTE,
        0.0,
        "This dialect compiles device code without PyTorch and without libraries for the host. Leave the include out "
        "and take plain pointers and sizes as kernel parameters.",
    ),
    "computed-include": Rule(
        _WARNING, 0.3, "The name of the file comes out of a macro. Write it out, so that it can be checked."
    ),
    "line-directive": Rule(
        _NOTE,
        0.05,
        "It changes which file and line messages speak of, so that they stop matching your text. Remove it.",
    ),
    "redefined-keyword": Rule(
        _WARNING, 0.3, "The text then does not mean what it says. Choose another name for the macro."
    ),
    "pasted-name": Rule(
        _WARNING, 0.3, "Token pasting spells a name that is looked for. Write the name out, or leave the call out."
    ),
    "macro-bomb": Rule(
        _WARNING,
        0.4,
        "Macros that double again and again make the compiler run out of time. Use a loop or a template.",
    ),
    "digraph": Rule(
        _NOTE, 0.05, "Digraphs and trigraphs only make a text harder to read. Write the plain characters."
    ),
    "code-in-comment": Rule(
        _WARNING,
        0.2,
        "The `//` comment above ends in a backslash, so this line is a comment too. Remove the backslash.",
    ),
    "build-time": Rule(
        _NOTE, 0.05, "The date or time of compiling makes results that cannot be repeated. Remove it."
    ),
    # Host code.
    "process-control": Rule(_NOTE, 0.3, _HOST + "A kernel needs no other programs; remove the call."),
    "environment": Rule(_NOTE, 0.1, _HOST + "A kernel gets everything through its parameters; remove the call."),
    "file-access": Rule(_NOTE, 0.15, _HOST + "Inputs arrive as kernel parameters; remove the file access."),
    "network": Rule(_NOTE, 0.3, _HOST + "There is no network either; remove the call."),
    "dynamic-loading": Rule(_NOTE, 0.3, _HOST + "Only the kernels in this text count; write the kernel here."),
    "host-threads": Rule(_NOTE, 0.1, _HOST + "Use the grid for parallel work."),
    "host-assembly": Rule(_WARNING, 0.2, _HOST + "Assembly belongs inside kernels, as PTX."),
    "host-launch": Rule(
        _NOTE, 0.0, _HOST + "Say what to launch in the launch plan, for example in a `// assay: launch` line."
    ),
    "host-runtime": Rule(
        _NOTE, 0.0, _HOST + "Buffers are made and copied for you; ask for scratch with `// assay: temp`."
    ),
    "static-initialiser": Rule(_NOTE, 0.02, _HOST + "A value that a kernel needs must be a constant or a parameter."),
    # Device code.
    "inline-assembly": Rule(_NOTE, 0.02, "Fine in a kernel. The simulator may not know every PTX instruction."),
    "unbounded-loop": Rule(
        _WARNING,
        0.1,
        "The loop has no condition and no way out, so the kernel would run into its time limit. Bound it.",
    ),
    "spin-wait": Rule(
        _NOTE,
        0.05,
        "Waiting for another block can hang: blocks need not run at the same time. Split the work into two launches, "
        "or launch cooperatively.",
    ),
    "sleep": Rule(_NOTE, 0.05, "Sleeping only makes a kernel slower, unless it backs off in a spin loop."),
    "clock": Rule(_NOTE, 0.05, "A result must not depend on time. Kernels are timed from outside."),
    "device-allocation": Rule(
        _NOTE,
        0.05,
        "Memory from the device heap is slow and is not given back here. Use registers, shared memory or a temp.",
    ),
    "module-state": Rule(
        _NOTE,
        0.1,
        "A `__device__` variable keeps its value from launch to launch. Inputs change each time, so do not remember "
        "answers in it; for scratch use a temp of the launch plan, or set it at the start of each run.",
    ),
    "static-local": Rule(
        _NOTE,
        0.1,
        "A static variable in device code counts through all launches. Inputs change each time; pass a parameter.",
    ),
    "template-recursion": Rule(
        _NOTE, 0.02, "Keep the depth small: deep recursion runs the compiler into its time limit."
    ),
    "huge-constant": Rule(
        _WARNING,
        0.2,
        "So large an array or template argument can run the compiler out of time or memory. Use a temp.",
    ),
    "not-outlined": Rule(
        _NOTE, 0.1, "The text is too large or nests too deeply to be looked at in full. Simplify it."
    ),
}

_CALLS: dict[str, str] = {
    "process-control": r"system|popen|v?fork|exec(?:lp?|le|vp?|vp?e)|posix_spawnp?|ptrace|syscall|prctl|kill|clone",
    "environment": r"(?:secure_)?getenv|setenv|putenv|unsetenv",
    "file-access": r"fopen|freopen|open|openat|creat|unlink|mkstemp|tmpfile|opendir|mmap|shm_open|readlink|symlink",
    "network": r"socket|socketpair|getaddrinfo|gethostbyname|inet_addr|inet_pton|sendto|recvfrom|curl_easy_\w+",
    "dynamic-loading": r"dlm?open|dlv?sym|dladdr|cuModuleLoad\w*|cuLibraryLoad\w*|nvrtc\w+",
    "host-threads": r"pthread_create|thrd_create",
    "clock": r"clock|clock64|__clock|__clock64|globaltimer|__globaltimer",
    "sleep": r"__nanosleep|nanosleep|usleep",
    "host-runtime": r"cuda[A-Z]\w+",
}
_CALL = re.compile(
    r"(?<![\w$])(?:" + "|".join(f"(?P<{n.replace('-', '_')}>{w})" for n, w in _CALLS.items()) + r")(?=\s*\()"
)
_HOST_ONLY = frozenset(_CALLS) - {"clock", "sleep", "host-runtime"}
_WORDS: dict[str, re.Pattern[str]] = {
    "file-access": re.compile(
        r"\bstd::(?:basic_)?[io]?fstream\b|\b(?:std::)?filesystem::\w+|(?<![\w:])[io]fstream\b"
    ),
    "host-threads": re.compile(r"\bstd::(?:j?thread|async)\b"),
    "host-launch": re.compile(r"<<<|\bcudaLaunch\w*"),
    "build-time": re.compile(r"\b__(?:DATE|TIME|TIMESTAMP)__\b"),
    "digraph": re.compile(r"%:|<%|%>"),
    "huge-constant": re.compile(r"(?<=[\[<])\s*\(?[0-9']{9,}\w*"),
}
_ASM = re.compile(r"(?<![\w$])(?:asm|__asm__|__asm)\b")
_FILE_IN_ASSEMBLY = re.compile(r"(?:^|[;\n{:])[^\S\n]*\.(?:incbin|include)\b|\.incbin\s*[\"'\\]")
_FILE_WORD = re.compile(r"\.\s*(?:incbin|include)\b")
_ASM_WORDS = frozenset({"asm", "__asm__", "__asm"})
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_PASTES = re.compile(r"(?<!\s)\s*+##\s*")
_KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """if else for while do switch case break continue return goto int float double char void bool long short
        unsigned signed const volatile static struct class union enum template typename namespace using public private
        operator sizeof new delete true false auto constexpr this throw try catch __global__ __device__ __host__
        __shared__ __constant__ __syncthreads threadIdx blockIdx blockDim gridDim""",
    )
)
_LIBRARIES = re.compile(
    r"(?:torch|ATen|c10|pybind11|cudnn|cublas|cusparse|cufft|curand\.h|cusolver|nccl|Python\.h|opencv)"
)
_TOOLKIT = re.compile(
    r"(?:cuda|cub/|thrust/|cooperative_groups|mma\.h|sm_|device_|vector_|math|curand|nv/|crt/|texture_|surface_|builtin_"
    r"|host_|driver_|common_functions|c?assert|c?std|c?float|c?limits|c?string|c?time|c?ctype|climits|cstdint)"
)
_MAX_PER_RULE = 8


@dataclass(frozen=True)
class ScreeningPolicy:
    """What the screen is strict about."""

    name: str
    rejects: frozenset[str]
    """Rules that end an evaluation."""
    silent: frozenset[str] = frozenset()
    """Rules that say nothing here."""
    host_code: str = _HOST
    """What becomes of host code, in words."""


_FILES: Final = frozenset({"host-file-include", "host-file-embed", "host-file-incbin"})
DEVICE_TIER = ScreeningPolicy("device tier: host code never runs", _FILES)
LIFTED = ScreeningPolicy(
    "host code is recorded, where it sees nothing",
    _FILES,
    frozenset({"host-launch", "host-runtime", "library-header"}),
    "Host code is only recorded here, in a sandbox. ",
)


@dataclass(frozen=True)
class Screened:
    """What screening gives."""

    screening: Screening
    ruling: Ruling | None
    """`rejected` where a rule of grading was broken for certain."""


Hit = tuple[str, int, str]
"""Rule, line, and what was found."""


def screen(source: str, changes: tuple[str, ...] = (), policy: ScreeningPolicy = DEVICE_TIER) -> Screened:
    """Look at a cleaned source. Never raises on any text, and takes about five seconds for the worst 1 MiB.

    `changes` is what cleaning did, and is passed on.
    """
    text = SourceText.read(source)
    hits = [hit for hit in _look(text) if hit[0] not in policy.silent]
    # -std=c++14 may be asked for, and there trigraphs are alive: take what either reading finds.
    if (other := without_trigraphs(source)) != source:
        hits.append(("digraph", source.count("\n", 0, source.index("??")) + 1, "a trigraph"))
        hits += _directive_hits(SourceText.read(other))
    rejected = [hit for hit in dict.fromkeys(hits) if hit[0] in policy.rejects]
    findings = tuple(_findings(hits, policy))
    remaining = 1.0
    for rule in {hit[0] for hit in hits}:
        remaining *= 1.0 - min(RULES[rule].weight, 0.9)
    screening = Screening(
        changes=changes, findings=findings, risk=1.0 if rejected else round(min(1.0 - remaining, 0.99), 4)
    )
    if not rejected:
        return Screened(screening, None)
    evidence = "; ".join(f"line {line}: {found}" for _, line, found in sorted(rejected, key=lambda hit: hit[1])[:4])
    more = f"; and {len(rejected) - 4} more" if len(rejected) > 4 else ""
    message = f"The source tries to read a file of the machine that grades ({evidence}{more})."
    return Screened(screening, Ruling(Status.REJECTED, Phase.SCREEN, message, RULES[rejected[0][0]].why))


def _findings(hits: Iterable[Hit], policy: ScreeningPolicy) -> Iterator[Finding]:
    """Hits as findings by line, at most `_MAX_PER_RULE` for each rule; the last of them says how many more."""
    distinct = sorted(dict.fromkeys(hits), key=lambda hit: hit[1])
    total = Counter(hit[0] for hit in distinct)
    seen: Counter[str] = Counter()
    for name, line, found in distinct:
        seen[name] += 1
        if seen[name] > _MAX_PER_RULE:
            continue
        more = total[name] - _MAX_PER_RULE
        tail = f" (and {more} more such places)" if seen[name] == _MAX_PER_RULE and more > 0 else ""
        rule = RULES[name]
        yield Finding(
            rule=name,
            severity=rule.severity,
            line=line,
            text=found + tail,
            why=rule.why.replace(_HOST, policy.host_code),
        )


def _look(text: SourceText) -> Iterator[Hit]:
    yield from _directive_hits(text)
    syntax = outline(text.code)
    if not syntax.complete:
        yield "not-outlined", 1, "only a part of the text was looked at for its structure"
    yield from _assembly_hits(text, syntax)
    yield from _call_hits(text, syntax)
    yield from ((place.rule, text.line(place.offset), place.found) for place in syntax.places)
    for rule, pattern in _WORDS.items():
        for match in pattern.finditer(text.code):
            yield rule, text.line(match.start()), f"`{_short(match[0].strip())}`"
    yield from (("code-in-comment", line, "a line that is part of the comment above it") for line in text.hidden)


def _directive_hits(text: SourceText) -> Iterator[Hit]:
    defined = macros(text)
    for directive in text.directives:
        name, argument, line = directive.name, directive.argument, text.line(directive.offset)
        shown = f"`#{name} {_short(argument)}`"
        if name in INCLUDES:
            if argument[:1] in ("<", '"'):
                for rule in _path_rules(name, argument):
                    yield rule, line, shown
            else:
                whole = computed_text(argument, defined)
                outside = judge_path(whole, computed=True) == "outside"
                yield (
                    ("host-file-embed" if name == "embed" else "host-file-include")
                    if outside
                    else "computed-include",
                    line,
                    shown,
                )
        elif name == "line":
            yield "line-directive", line, shown
        elif name == "pragma" and re.match(r"GCC\s+dependency\b", argument):
            yield "host-file-probe", line, shown
        elif name == "define":
            macro = re.match(r"\w+", argument)
            if macro and macro[0] in _KEYWORDS and argument.split() != [macro[0], macro[0]]:
                yield "redefined-keyword", line, f"`#define {macro[0]}`"
            body = _PASTES.sub("", argument)
            if "##" in argument and (named := _CALL.search(body + "(") or _CALL.search(body.replace(")", "("))):
                yield "pasted-name", line, f"a macro that pastes `{named[0]}` together"
    for match in PROBES.finditer(text.code):
        paths = [token.text for token in text.tokens_in(match.end(), match.end() + 1)]
        if paths and judge_path(paths[0]) == "outside":
            yield "host-file-probe", text.line(match.start()), f"`{match[0].strip()}{_short(paths[0])})`"
    for match in re.finditer(r"\b_Pragma\s*\(\s*", text.code):
        if any("dependency" in token.content for token in text.tokens_in(match.end(), match.end() + 1)):
            yield "host-file-probe", text.line(match.start()), "`_Pragma` with a file dependency"
    for name, size in expansion_sizes(defined).items():
        if size > 1_000_000:
            where = defined[name][0]
            yield "macro-bomb", text.line(where.offset), f"macro `{_short(name)}` grows to about {size:.0e} tokens"


def _path_rules(directive: str, argument: str) -> Iterator[str]:
    verdict = judge_path(argument)
    name = argument[1:].split(argument[0].replace("<", ">"), 1)[0].strip()
    if verdict == "outside":
        yield "host-file-embed" if directive == "embed" else "host-file-include"
    elif verdict == "odd":
        yield "odd-include"
    elif _LIBRARIES.match(name):
        yield "library-header"
    elif argument[0] == '"' and not _TOOLKIT.match(name):
        yield "missing-header"


def _assembly_hits(text: SourceText, syntax: Outline) -> Iterator[Hit]:
    """Every `asm`, and every use of a macro whose body holds one."""
    if not _ASM.search(text.code):
        return
    defined = macros(text)
    wrappers = reaching(defined, _ASM)
    from_files = reaching(defined, _FILE_WORD)
    places = [match for match in _WORD.finditer(text.code) if match[0] in _ASM_WORDS or match[0] in wrappers]
    starts = [directive.offset for directive in text.directives]
    for match, following in zip_longest(places, places[1:]):
        start, end = match.end(), following.start() if following else len(text.code)
        stop = text.code.find(";", start, end)
        end = end if stop < 0 else stop
        line = text.line(match.start())
        # Adjacent strings are one string, and macros may hold parts of it.
        content = "".join(token.content for token in text.tokens_in(start, end) if '"' in token.text)
        inside = text.code[start:end]
        if (
            _FILE_IN_ASSEMBLY.search(content)
            or _FILE_WORD.search(inside)
            or (from_files and not from_files.isdisjoint(_WORD.findall(inside)))
            or match[0] in from_files
        ):
            yield "host-file-incbin", line, "assembly with `.incbin` or `.include`"
        if match[0] in wrappers:
            continue
        if "%clock" in content or "%globaltimer" in content:
            yield "clock", line, "assembly that reads a clock"
        side = syntax.side(match.start())
        near = bisect_right(starts, match.start()) - 1
        in_macro = near >= 0 and match.start() < text.directives[near].end
        if side == "host" or (side == "outside" and syntax.complete and not in_macro):
            yield "host-assembly", line, f"`{match[0]}` outside device code"
        else:
            yield "inline-assembly", line, f"`{match[0]}`"


_EXPRESSION_WORDS = frozenset({"return", "else", "do", "throw", "case", "co_return", "co_await", "co_yield"})
_LAST_WORD = re.compile(r"\w+\Z")


def _call_hits(text: SourceText, syntax: Outline) -> Iterator[Hit]:
    for match in _CALL.finditer(text.code):
        name = match[0]
        rule = (match.lastgroup or "").replace("_", "-")
        before = text.code[max(0, match.start() - 64) : match.start()].rstrip(" \t\n")
        if before.endswith((".", "->")) or (before.endswith("::") and re.search(r"[\w>]\Z", before[:-2])):
            if not before.endswith("std::"):
                continue
        # `void open(int)` declares a name; `return open(x)` uses it.
        elif (word := _LAST_WORD.search(before)) and word[0] not in _EXPRESSION_WORDS and not word[0].isdigit():
            continue
        if name in syntax.functions or (rule in _HOST_ONLY and syntax.side(match.start()) == "device"):
            continue
        yield rule, text.line(match.start()), f"a call of `{_short(name)}`"


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
