"""The referee's own device code in plain Python on the host: for sessions, whose memory is too large to simulate.

`test_own_checks.py` holds it against the real code on the simulator.
"""

import struct

import numpy as np
import torch

from evaluator.backends.gpu.checks import COMPARE, MOST_ASKED, RESULT_BYTES

_TYPES = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
)


class HostDevice:
    """`checks.ChecksLauncher` on tensors of the host."""

    def __init__(self):
        self._results = torch.zeros(RESULT_BYTES, dtype=torch.uint8)
        self.launches = self.reads = 0

    def results(self):
        return self._results.zero_()

    def read(self):
        self.reads += 1
        return self._results.numpy().tobytes()

    def launch(self, kernel, grid, parameters, pointers):
        self.launches += 1
        there = dict(pointers)
        if kernel == COMPARE:
            self._compare(parameters, there)
            return
        (unless,) = struct.unpack_from("<Q", parameters, 16)
        if 8 in there and there[8].view(torch.int32)[:unless].any():
            return
        for number in range(grid[1]):
            place = 24 + 40 * number
            _, _, size_bytes, word, deed, item = struct.unpack_from("<QQQQII", parameters, place)
            at, other = there[place], there.get(place + 8)
            other = other if other is None else other.reshape(-1).view(torch.uint8)
            assert at.numel() == size_bytes
            if self._did(deed, at, other, word, item):
                there[0].view(torch.int32)[number] = 1

    @staticmethod
    def _did(deed, at, other, word, item):
        if deed == 1:
            at.copy_(other)
            return False
        if deed == 3:
            return not torch.equal(at, other)
        if deed == 4:
            return bool((at.reshape(-1, item) == word).all(dim=1).any())
        # By words, as far as it has whole ones: the last guard has all that is left of the memory.
        head = min(-at.data_ptr() % 8, at.numel())
        whole = at[head : head + (at.numel() - head) // 8 * 8]
        signed = word - (1 << 64) if word >> 63 else word
        pattern = torch.frombuffer(bytearray(word.to_bytes(8, "little") * 2), dtype=torch.uint8)
        ends = (
            (at[:head], pattern[8 - head : 8]),
            (at[head + whole.numel() :], pattern[: at.numel() - head - whole.numel()]),
        )
        if head and head < -at.data_ptr() % 8:
            first = at.data_ptr() % 8
            ends = ((at[:head], pattern[first : first + head]),)
        # numpy's, which takes words at any place of the storage; torch takes them at multiples of eight alone.
        words = whole.numpy().view(np.int64)
        if deed == 0:
            words.fill(signed)
            for part, wanted in ends:
                part.copy_(wanted)
            return False
        changed = bool((words != signed).any())
        return changed or not all(torch.equal(part, wanted) for part, wanted in ends)

    def _compare(self, parameters, there):
        values = struct.unpack_from("<QQQQ4q4q" + 4 * "Qd4q" + "ddII", parameters)
        count, extents, wanted_strides = values[3], values[4:8], values[8:12]
        share, absolute, kind, flat = values[36:]
        shape = (count,) if flat else extents

        def laid_out(tensor, strides):
            return torch.as_strided(tensor, shape, (1,) if flat else strides, tensor.storage_offset())

        def term(number):
            _, value, *strides = values[12 + 6 * number : 18 + 6 * number]
            place = 96 + 48 * number
            return laid_out(there[place], strides) if place in there else torch.tensor(value, dtype=torch.float64)

        actual = there[0].reshape(shape)
        assert actual.dtype == _TYPES[kind]
        wanted = laid_out(there[8], wanted_strides)
        error = (actual.double() - wanted.double()).abs()
        if kind >= 4:
            error = torch.where(actual.long() == wanted, error, error.clamp(min=1.0))
        relative, longer, scale, beyond = map(term, range(4))
        allowed = torch.minimum(share * longer, relative) * scale + beyond + absolute
        ratio = error / (allowed + 2.0**-1022)
        self._results.view(torch.float64)[there[16].storage_offset() // 8] = ratio.max()
        assert there[16].storage_offset() >= 4 * MOST_ASKED
