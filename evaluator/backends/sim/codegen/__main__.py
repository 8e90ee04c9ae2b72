"""Lists every instruction that the simulator knows, one a line, columns between tabs."""

import sys
from collections.abc import Iterator, Set

from evaluator.backends.sim.codegen.instructions import known_instructions
from evaluator.backends.sim.codegen.table import InstructionEntry
from evaluator.backends.sim.ptx.model import TYPE_BYTES

_FLAGS = ("destination", "branches", "indexed", "ends", "barrier", "waits", "ordered", "special", "product")
_COLUMNS = ("family", "instruction", "types", "first types", "modifiers", "operands", "guard", "counts as", "flags")


def table_rows() -> Iterator[tuple[str, ...]]:
    """The table of instructions as text: first what the columns are called, then a row for each entry."""
    yield _COLUMNS
    for family, entry in known_instructions():
        yield family, entry.name, *_accepted(entry), entry.guarding, entry.counted or "its type", _flags(entry)


def _accepted(entry: InstructionEntry) -> tuple[str, str, str, str]:
    count = entry.operand_count
    return (
        _joined(TYPE_BYTES.keys() if entry.types is None else entry.types),
        _joined(entry.first_types or set()),
        _joined(entry.modifiers),
        "" if count is None else str(count),
    )


def _joined(words: Set[str]) -> str:
    """`none` where the type may be left out."""
    return " ".join(word or "none" for word in sorted(words))


def _flags(entry: InstructionEntry) -> str:
    return " ".join(flag for flag in _FLAGS if getattr(entry, flag))


def main() -> None:
    """Print the table."""
    sys.stdout.writelines("\t".join(row) + "\n" for row in table_rows())


if __name__ == "__main__":
    main()
