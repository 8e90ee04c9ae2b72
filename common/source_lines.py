"""Where the lines of a source text begin: one answer for all that number, quote or compare them.

`str.splitlines` is another: it also breaks at form feeds and other control characters, which no compiler does.
"""

import re

_LINE_END = re.compile(r"\r\n?")
_SEPARATOR = re.compile("[\u2028\u2029]")


def with_newlines(text: str) -> str:
    """`text` with plain newlines for the line ends of Windows and old Macs.

    Unicode's separators of lines and paragraphs are line ends only where there are no others between lines: elsewhere
    they are characters inside a line, for a compiler and for most editors.
    """
    if "\r" in text:
        return _LINE_END.sub("\n", text)
    # A newline at the end or before the start is what an editor or a prompt has added.
    return text if "\n" in text.strip("\n") else _SEPARATOR.sub("\n", text)


def lines_of(text: str) -> list[str]:
    """The lines of `text` without their ends; a newline at the end of the last one begins no further line."""
    return with_newlines(text).removesuffix("\n").split("\n") if text else []
