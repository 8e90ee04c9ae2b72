"""What a GPU left of every form: a file beside this one.

`h200.json.xz` says on which GPU, with which driver and assembler, and of each form its digest and where its results
are in `h200.bin.xz`: only the bits that a result has, one column behind the other. Of a form whose text or operands
are others today the digest differs, and it counts as not recorded.
"""

import json
import lzma
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from conformance.forms import Form
from conformance.operands import operands

FILE = Path(__file__).parent / "h200"


@dataclass
class Recording:
    """Results by form."""

    machine: dict[str, str]
    """GPU, driver, compiler, target, date."""
    rows: dict[str, list]
    """Of each form by its name: its digest, and where its results begin, or why there are none."""
    data: bytearray

    @classmethod
    def empty(cls, machine: dict[str, str]) -> "Recording":
        """To be filled."""
        return cls(machine, {}, bytearray())

    def add(self, form: Form, words: np.ndarray) -> None:
        """Keep a form's results."""
        self.rows[form.name] = [_digest(form), len(self.data)]
        for column, field in zip(words.T, form.results, strict=True):
            self.data += _packed(column, field.bits)

    def refuse(self, form: Form, reason: str) -> None:
        """Keep why there are none."""
        self.rows[form.name] = [_digest(form), reason]

    def results(self, form: Form) -> np.ndarray | str:
        """What the GPU left of a form: a row for each thread; or why that is not known."""
        row = self.rows.get(form.name)
        if row is None:
            return "not recorded"
        digest, place = row
        if digest != _digest(form):
            return "recorded with another text or other operands"
        if isinstance(place, str):
            return f"refused by the GPU's tools: {place}"
        columns = []
        for field in form.results:
            size = _packed_bytes(form.launch.threads, field.bits)
            columns.append(_unpacked(self.data[place : place + size], form.launch.threads, field.bits))
            place += size
        return np.stack(columns, axis=1)

    def save(self, file: Path = FILE) -> None:
        """Write both files."""
        text = json.dumps({"machine": self.machine, "forms": self.rows}, indent=0)
        file.with_suffix(".json.xz").write_bytes(lzma.compress(text.encode(), preset=9))
        file.with_suffix(".bin.xz").write_bytes(lzma.compress(bytes(self.data), preset=9))

    @classmethod
    def load(cls, file: Path = FILE) -> "Recording":
        """Read both files."""
        text = json.loads(lzma.decompress(file.with_suffix(".json.xz").read_bytes()))
        return cls(
            text["machine"], text["forms"], bytearray(lzma.decompress(file.with_suffix(".bin.xz").read_bytes()))
        )


def _digest(form: Form) -> str:
    return form.digest(operands(form).astype("<u8").tobytes())


def _packed_bytes(threads: int, bits: int) -> int:
    return -(-threads // 8) if bits == 1 else threads * bits // 8


def _packed(column: np.ndarray, bits: int) -> bytes:
    if bits == 1:
        return np.packbits(column.astype(np.uint8)).tobytes()
    # One byte of every number behind the other compresses better.
    return column.astype(f"<u{bits // 8}").view(np.uint8).reshape(len(column), -1).T.tobytes()


def _unpacked(data: bytes | bytearray, threads: int, bits: int) -> np.ndarray:
    if bits == 1:
        return np.unpackbits(np.frombuffer(data, np.uint8))[:threads].astype(np.uint64)
    planes = np.frombuffer(data, np.uint8).reshape(bits // 8, threads)
    return np.ascontiguousarray(planes.T).view(f"<u{bits // 8}").reshape(-1).astype(np.uint64)
