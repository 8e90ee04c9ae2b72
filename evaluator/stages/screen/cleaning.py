"""Model output to source text: what a language model wraps around its code is taken off, and each change is named.

Code that is clean already comes back as it is. The cleaned text is what everything later speaks of: lines in
findings, diagnostics and directives are lines of it. So what is taken off leaves its line breaks behind, and every
line keeps the number that it has in the text that was sent.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, zip_longest
from typing import Final

from common.contract import MAX_SOURCE_BYTES, Phase, Status
from common.launch_directives import PREFIX
from common.source_lines import with_newlines
from evaluator.errors import Ruling
from evaluator.stages.screen.lexer import pieces


@dataclass(frozen=True)
class Cleaned:
    """What cleaning gives."""

    source: str
    """The source text, each line where it was in the text that was sent; empty where there is a ruling."""
    changes: tuple[str, ...]
    """What was changed, one sentence each."""
    ruling: Ruling | None
    """`invalid_submission` where there is no text that could be graded."""


# Steps enable each other (a fence inside a chat token, say), so they repeat until nothing changes.
_MAX_ROUNDS = 12
_MAX_CHANGES = 32

_MAGIC = (
    (b"\x7fELF", "a compiled binary (ELF)"),
    (b"\x50\xed\x55\xba", "a CUDA fat binary"),
    (b"BC\xc0\xde", "LLVM bitcode"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"%PDF-", "a PDF document"),
    (b"MZ", "a Windows program"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)
_SEND_TEXT = "Send the CUDA source itself, as UTF-8 text with `__global__` kernels."


def clean(raw: bytes | str, python: bool = False) -> Cleaned:
    """Take the source text out of what a model or a file gave. Never raises, whatever comes in.

    `python`: the text is Python with Triton kernels. Of that prose outside of fences is not told apart from code.
    """
    data = raw if isinstance(raw, bytes) else raw.encode("utf-8", errors="surrogatepass")
    if len(data) > MAX_SOURCE_BYTES:
        return Cleaned("", (), too_long(len(data)))
    if (ruling := _not_text(data)) is not None:
        return Cleaned("", (), ruling)
    text = data.decode("utf-8")
    notes: list[str] = []
    sent = text = _control(_line_ends(text, notes.append), notes.append)
    for _ in range(_MAX_ROUNDS):
        before = text
        for step in _PYTHON_STEPS if python else _STEPS:
            text = step(text, notes.append)
        if text == before:
            break
    changes = tuple(dict.fromkeys(notes))
    if len(changes) > _MAX_CHANGES:
        changes = (*changes[:_MAX_CHANGES], f"{len(changes) - _MAX_CHANGES} more changes of these kinds were made.")
    if text.strip():
        return Cleaned(_in_place(text, sent), changes, None)
    if not data.strip():
        return _invalid("The source is empty.", _SEND_TEXT)
    if any("reasoning" in change for change in changes):
        message = "The text ends inside its reasoning or right after it: there is no code."
        return Cleaned(
            "", changes, _ruling(message, "Close the reasoning, then write the kernel; leave room for it.")
        )
    return Cleaned("", changes, _ruling("Nothing is left of the source once wrapping is taken off.", _SEND_TEXT))


def too_long(size_bytes: int) -> Ruling:
    """The ruling on a source of more than 1 MiB, whatever stands in it."""
    return _ruling(
        f"The source has {size_bytes} bytes; at most {MAX_SOURCE_BYTES} (1 MiB) are graded.",
        "Shorten it: compute tables in the kernel, and leave out unused code.",
    )


def _ruling(message: str, hint: str) -> Ruling:
    return Ruling(Status.INVALID_SUBMISSION, Phase.SCREEN, message, hint)


def _invalid(message: str, hint: str) -> Cleaned:
    return Cleaned("", (), _ruling(message, hint))


def _not_text(data: bytes) -> Ruling | None:
    """Why the bytes are no UTF-8 text, or None."""
    bad, what = data.find(b"\0"), "a NUL byte"
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        if bad < 0 or error.start < bad:
            bad, what = error.start, f"byte 0x{data[error.start]:02x}, which is not UTF-8 ({error.reason})"
    if bad < 0:
        return None
    line = data.count(b"\n", 0, bad) + 1
    kind = next((name for magic, name in _MAGIC if data.startswith(magic)), None)
    looks = f" It looks like {kind}." if kind else ""
    hint = "Save the file as UTF-8." if kind == "UTF-16 text" or b"\0" not in data else _SEND_TEXT
    return _ruling(f"The source is not UTF-8 text: at byte offset {bad}, line {line}, there is {what}.{looks}", hint)


_Note = Callable[[str], None]


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _blank(text: str) -> str:
    """What is left of something that is taken off: its line breaks."""
    return "\n" * text.count("\n")


def _in_place(text: str, sent: str) -> str:
    """`text` with each line in the columns that it had in `sent`, and without the lines that came after the code."""
    lines, whole = text.split("\n"), sent.split("\n")
    end = next((number for number in range(len(lines), 0, -1) if lines[number - 1].strip()), 0)
    if any(line.strip() for line in whole[end:]):
        lines = [*lines[:end], ""]
    # A directive counts in the first column alone, so it moves there.
    return "\n".join(
        line if line == before or not line.strip() or line.startswith(PREFIX) else " " * _column(line, before) + line
        for line, before in zip_longest(lines, whole[: len(lines)], fillvalue="")
    )


def _column(line: str, before: str) -> int:
    """How many characters stood before what is left of a line; 0 where its characters changed."""
    return max(before.rfind(line), 0)


def _line_ends(text: str, note: _Note) -> str:
    plain = with_newlines(text)
    if plain != text:
        first = _line(text, text.index("\r")) if "\r" in text else 1
        style = "Windows or old Mac style" if "\r" in text else "Unicode's own kind"
        note(f"Line ends of {style} became plain newlines, from line {first} on.")
    return plain


_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_BIDI = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_INVISIBLE = re.compile(r"[\u180e\u200b\u2060-\u2064\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]")


def _control(text: str, note: _Note) -> str:
    if text.startswith("\ufeff"):
        note("A byte order mark at the start was removed.")
        text = text[1:]
    for pattern, name in (
        (_CONTROL, "control character"),
        (_BIDI, "control character for the direction of writing, which can make code look like what it is not,"),
        (_INVISIBLE, "invisible character"),
    ):
        found = list(pattern.finditer(text))
        if found:
            more = f" and {len(found) - 1} more like it" if len(found) > 1 else ""
            were = "were" if more else "was"
            first = found[0]
            note(f"One {name} (U+{ord(first[0]):04X}) in line {_line(text, first.start())}{more} {were} removed.")
            text = pattern.sub("", text)
    return text


_OPEN_THOUGHT = re.compile(r"\s*<(think|thinking|reasoning|thought|reflection)>", re.IGNORECASE)
_CLOSE_THOUGHT = re.compile(
    r"^(?![ \t]*(?://|\*))[^\n\"]*?</(think|thinking|reasoning|thought|reflection)>[ \t]*",
    re.IGNORECASE | re.MULTILINE,
)


def _reasoning(text: str, note: _Note) -> str:
    lowered = text.lower()
    end = 0
    while opened := _OPEN_THOUGHT.match(text, end):
        closed = lowered.find(f"</{opened[1].lower()}>", opened.end())
        if closed < 0:
            note("The reasoning at the start never ends, so nothing after it counts as code.")
            return ""
        end = closed + len(opened[1]) + 3
    # Chat templates often put the opening tag into the prompt, so that only the closing one is here.
    if not end and "</" in text and (last := _CLOSE_THOUGHT.search(text)):
        end = last.end()
    if not end:
        return text
    while again := _CLOSED_AGAIN.match(text, end):
        end = again.end()
    note(f"The reasoning up to line {_line(text, end)} was removed.")
    return _blank(text[:end]) + text[end:]


_CLOSED_AGAIN = re.compile(r"\s*</(think|thinking|reasoning|thought|reflection)>", re.IGNORECASE)
_LAST_TOKENS = ("</s>", "<eos>", "<end_of_turn>")
_SPECIAL = re.compile(
    r"<[|｜](?:im_start|start_header_id|start)[|｜]>[ \t]*(?:assistant|user|system)?"
    r"(?:<[|｜]end_header_id[|｜]>)?[ \t]*\n?"
    r"|<[|｜][A-Za-z][\w▁ ]{0,40}[|｜]>|\[/?INST\]|\A\s*<s>"
    r"|<start_of_turn>(?:model|user)?"
)


def _special_tokens(text: str, note: _Note) -> str:
    end = len(text.rstrip())
    while token := next((token for token in _LAST_TOKENS if text.endswith(token, 0, end)), None):
        end -= len(token)
        while end and text[end - 1].isspace():
            end -= 1
    if end < len(text.rstrip()):
        note(f"The chat tokens after line {_line(text, end)} were removed.")
        text = text[:end] + "\n"
    if not _SPECIAL.search(text):
        return text
    protected = _protected(text)
    found = [match for match in _SPECIAL.finditer(text) if not protected[match.start()]]
    if not found:
        return text
    kept, last = [], 0
    for match in found:
        kept += [text[last : match.start()], _blank(match[0])]
        last = match.end()
    more = f" and {len(found) - 1} more were" if len(found) > 1 else " was"
    note(f"The chat token `{found[0][0].strip()}` in line {_line(text, found[0].start())}{more} removed.")
    return "".join(kept) + text[last:]


def _protected(text: str) -> bytearray:
    """1 for each character of a string or a comment. A literal that its line ends inside protects nothing."""
    mask = bytearray(len(text))
    for kind, start, end in pieces(text):
        closed = kind not in ("string", "char", "raw", "comment") or (text[end - 1] in "\"'/" and end - start > 1)
        if kind not in ("code", "splice") and closed:
            mask[start:end] = b"\1" * (end - start)
    return mask


# Possessive: a line that is no fence after all would be tried in as many ways as it has characters.
_FENCE = re.compile(r"^ {0,3}(`{3,}+|~{3,}+)[ \t]*+([\w+#.\-]*+)[^`\n]*+$", re.MULTILINE)
_KERNEL = re.compile(
    r"\b__global__\b(?:[^;{}()]|__launch_bounds__\s*\([^()]{0,200}\)){0,200}?\b(\w{1,200})\s{0,20}\((?!\s*\()"
)
_HELPER = re.compile(r"\b__device__\b|^// assay:", re.MULTILINE)
_USAGE = re.compile(r"<<<|\bmain\s*\(")
_NOT_CUDA = frozenset(
    {"python", "py", "json", "bash", "sh", "shell", "console", "text", "txt", "yaml", "markdown", "md"}
)


@dataclass(frozen=True)
class _Block:
    number: int
    language: str
    text: str
    start: int
    """Where `text` starts, in characters of the answer."""
    first_line: int
    last_line: int
    closed: bool

    @cached_property
    def kernels(self) -> frozenset[str]:
        return frozenset(_KERNEL.findall(self.text)) if self.language not in _NOT_CUDA else frozenset()

    @property
    def place(self) -> str:
        return f"block {self.number} (lines {self.first_line} to {self.last_line})"


def _blocks(text: str) -> list[_Block]:
    """The fenced blocks. A fence inside a comment or a raw string of code is none."""
    fences = list(_FENCE.finditer(text))
    if not fences:
        return []
    inside = [
        (start, end) for kind, start, end in pieces(text) if kind in ("comment", "raw") and text[end - 1] in '/"'
    ]
    found: list[_Block] = []
    opening: re.Match[str] | None = None
    starts = list(accumulate((len(line) + 1 for line in text.split("\n")), initial=0))
    lines = {offset: number for number, offset in enumerate(starts, 1)}
    comment = 0
    for fence in fences:
        if opening is None:
            while comment < len(inside) and inside[comment][1] <= fence.start():
                comment += 1
            if comment < len(inside) and inside[comment][0] < fence.start():
                continue
            opening = fence
        elif fence[1][0] == opening[1][0] and len(fence[1]) >= len(opening[1]) and not fence[2]:
            first, last = lines[opening.start()] + 1, lines[fence.start()] - 1
            start = opening.end() + 1
            body = text[start : fence.start()]
            found.append(_Block(len(found) + 1, opening[2].lower(), body, start, first, last, closed=True))
            opening = None
    if opening is not None:
        start, first = opening.end() + 1, lines[opening.start()] + 1
        found.append(_Block(len(found) + 1, opening[2].lower(), text[start:], start, first, len(starts) - 1, False))
    return found


def _fences(text: str, note: _Note) -> str:
    """The code out of Markdown.

    Blocks with kernels stay in their places; where two define the same kernel the later one counts, since models
    improve on themselves. Blocks with only device functions or directives come along. Usage examples and other
    languages do not. Without any kernel, the longest block is taken.
    """
    found = _blocks(text)
    blocks = [block for block in found if block.text.strip()]
    if not blocks:
        if found:
            note("Empty Markdown fences were removed.")
            return _FENCE.sub("", text)
        return text
    taken: list[_Block] = []
    names: set[str] = set()
    for block in reversed(blocks):
        if block.kernels and names.isdisjoint(block.kernels):
            names |= block.kernels
            taken.append(block)
    if taken:
        helpers = [
            block
            for block in blocks
            if not block.kernels
            and block.language not in _NOT_CUDA
            and _HELPER.search(block.text)
            and not _USAGE.search(block.text)
        ]
        taken = sorted({*taken, *helpers}, key=lambda block: block.number)
        why = "it holds the kernels" if len(taken) == 1 else "together they hold the kernels"
    else:
        cuda = [block for block in blocks if block.language not in _NOT_CUDA] or blocks
        taken, why = [max(cuda, key=lambda block: len(block.text))], "no block has a kernel, and it is the longest"
    if len(blocks) == 1:
        note(f"The Markdown fence around lines {taken[0].first_line} to {taken[0].last_line} was removed.")
    else:
        note(f"Of {len(blocks)} Markdown blocks, {' and '.join(b.place for b in taken)} was taken: {why}.")
    left = [block for block in blocks if block not in taken]
    if taken and left:
        note(f"Left out: {', '.join(block.place for block in left)}.")
    if not taken[-1].closed:
        note("The last Markdown fence is never closed: the text may have been cut off.")
    kept, last = [], 0
    for block in taken:
        kept += [_blank(text[last : block.start]), block.text]
        last = block.start + len(block.text)
    return "".join(kept)


_TRITON: Final = re.compile(r"@\s*(?:triton\s*\.\s*)?jit\b")


def _python_fences(text: str, note: _Note) -> str:
    """The last Markdown block with Triton kernels in it, since models improve on themselves; else as for CUDA."""
    found = [block for block in _blocks(text) if _TRITON.search(block.text)]
    if not found:
        return _fences(text, note)
    taken = found[-1]
    note(f"The Markdown fence around lines {taken.first_line} to {taken.last_line} was removed.")
    if not taken.closed:
        note("The last Markdown fence is never closed: the text may have been cut off.")
    return _blank(text[: taken.start]) + taken.text


_CODE_START = re.compile(
    r"\s*(?:#\s*(?:include|define|undef|pragma|if|ifdef|ifndef|else|elif|endif|error|line|warning|import|embed)\b|%:|//|/\*"
    r"|\*|template\b|extern\b|__\w+|using\s+[\w:]+\s*[=;]|using namespace\b"
    r"|namespace\b|typedef\b|(?:struct|class|enum|union)\s+"
    r"\w+\s*[:{;]?\s*$|static\b|inline\b|constexpr\b|const\s+\w+[\s*]|(?:void|int|float|double|half|unsigned|char|bool|long"
    r"|auto)\s*[\w*&]+\s*[\[(=;,]|asm\b|[{}])"
)
_CODE_SIGNS = re.compile(r"[;{}=\[\]<>&|\\#]|\w\(")
_INLINE_CODE = re.compile(r"`[^`\n]*`")
_PROSE_MARK = re.compile(r"^\s*(?:#{1,6}\s|[-*+]\s|\d+[.)]\s|\*\*)|[.:!?][*_)\"]*\s*$")


def _is_prose(line: str) -> bool:
    """Whether a line is a sentence, a heading or a list item, and surely no code."""
    plain = re.sub(r"^\s*#{1,6}(?=\s)", "", _INLINE_CODE.sub("x", line))
    words = re.findall(r"[^\W\d_]{2,}", plain)
    return not _CODE_START.match(line) and not _CODE_SIGNS.search(plain) and bool(words)


def _prose(text: str, note: _Note) -> str:
    """Sentences before the first and after the last line of code, where there are no fences."""
    lines = text.split("\n")
    first = next((i for i, line in enumerate(lines) if line.strip() and not _is_prose(line)), len(lines))
    head = [line for line in lines[:first] if line.strip()]
    if first < len(lines) and head and _CODE_START.match(lines[first]) and _surely(head):
        begun = next(number for number, line in enumerate(lines, 1) if line.strip())
        note(f"Prose before the code, {_lines(begun, first)}, was removed.")
        lines[:first] = [""] * first
        text = "\n".join(lines)
    last = len(lines)
    while last > 0 and (not lines[last - 1].strip() or _is_prose(lines[last - 1])):
        last -= 1
    tail = [line for line in lines[last:] if line.strip()]
    ends = last > 0 and re.search(r"[;}/]\s*$|^\s*(?:#\s*endif|//)", lines[last - 1])
    if tail and ends and _surely(tail):
        offset = sum(len(line) + 1 for line in lines[:last])
        if not any(
            kind not in ("code", "string", "char") and start < offset < end for kind, start, end in pieces(text)
        ):
            note(f"Prose after the code, {_lines(last + 1, len(lines))}, was removed.")
            return "\n".join(lines[:last]) + "\n"
    return text


def _lines(first: int, last: int) -> str:
    return f"line {first}" if first == last else f"lines {first} to {last}"


def _surely(lines: list[str]) -> bool:
    return any(_PROSE_MARK.search(line) or len(line.split()) >= 5 for line in lines)


_LOOKALIKES = {
    **dict.fromkeys(
        "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "
    ),
    # A newline would give all lines after it other numbers than they have in the text that was sent.
    **dict.fromkeys("\u2028\u2029", " "),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'"),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
    **dict.fromkeys("\u200c\u200d\u00ad", ""),
    **{chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},
}
_LOOKALIKE = re.compile("[" + "".join(map(re.escape, _LOOKALIKES)) + "]")


def _lookalikes(text: str, note: _Note) -> str:
    """Typographic characters in code, never in strings and comments, become what a compiler reads."""
    if not _LOOKALIKE.search(text):
        return text
    protected = _protected(text)
    found = [match for match in _LOOKALIKE.finditer(text) if not protected[match.start()]]
    if not found:
        return text
    kept, last = [], 0
    for match in found:
        kept += [text[last : match.start()], _LOOKALIKES[match[0]]]
        last = match.end()
    first = found[0]
    more = f" and {len(found) - 1} more typographic characters" if len(found) > 1 else ""
    become = "became what a compiler reads" if more else f"became `{_LOOKALIKES[first[0]]}`"
    note(f"U+{ord(first[0]):04X} in line {_line(text, first.start())}{more} {become}.")
    return "".join(kept) + text[last:]


_STEPS: tuple[Callable[[str, _Note], str], ...] = (
    _line_ends,
    _control,
    _reasoning,
    _special_tokens,
    _fences,
    _prose,
    _lookalikes,
)
_PYTHON_STEPS: tuple[Callable[[str, _Note], str], ...] = (
    _line_ends,
    _control,
    _reasoning,
    _special_tokens,
    _python_fences,
)
