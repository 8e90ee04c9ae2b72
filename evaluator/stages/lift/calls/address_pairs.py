"""Addresses in two recordings of one call: which byte of which buffer a pair of words means.

A word that differs between the two is an address, of the same byte of the same buffer in both, or it is something
that no plan can say. A word that is the same in both is a number, whatever it looks like: how far two pointers into
one buffer are apart is one.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from common.contract import Status
from evaluator.stages.lift.binding import LiftRefusedError
from evaluator.stages.lift.calls.returned import unstable
from evaluator.stages.lift.recording import RecordedBuffer, RecordedLaunch

Place: TypeAlias = tuple[int, int]
"""A buffer, by its number, and the byte in it."""
_LARGEST_ELEMENT_BYTES: Final = 64
"""Of those that a difference of pointers may count."""


class AddressPairs:
    """The buffers of both recordings by their addresses."""

    def __init__(
        self,
        first: Sequence[RecordedBuffer],
        second: Sequence[RecordedBuffer],
        of_others: frozenset[int] = frozenset(),
    ) -> None:
        """`of_others`: buffers that no address may be in, tensors of another call."""
        self._both = [(sorted((one.base, i) for i, one in enumerate(each)), each) for each in (first, second)]
        self._of_others = of_others

    def place(self, said: str, one: int, other: int) -> Place:
        """Buffer and offset that both addresses mean. Raises LiftRefusedError; `said`: what holds them, in words."""
        found = self._looked_up(0, one), self._looked_up(1, other)
        if found[0] is None or found[0] != found[1]:
            raise unstable(f"{said} is {one:#x} in one run and {other:#x} in the next, at no buffer's address")
        if found[0][0] in self._of_others:
            raise LiftRefusedError(
                Status.REJECTED,
                f"The host code keeps pointers of an earlier call: {said.removesuffix(',')} is a tensor that this "
                "call was not given.",
                "Take all pointers from the arguments anew at each call: each has tensors of its own.",
            )
        return found[0]

    def none_of_both(self, one: int, other: int) -> bool:
        """Whether these words are an address in neither recording."""
        return self._looked_up(0, one) is None and self._looked_up(1, other) is None

    def apart(self, one: int, other: int, bits: int) -> tuple[int, int] | None:
        """The buffers into which two pointers lead whose difference these words of so many bits are in both."""
        (_, first), (_, second) = self._both
        moved = [(there.base - here.base) % (1 << bits) for here, there in zip(first, second, strict=True)]
        numbers = {by: number for number, by in enumerate(moved)}
        for size in range(1, _LARGEST_ELEMENT_BYTES + 1):
            by = (other - one) * size
            for number, its in enumerate(moved):
                from_ = numbers.get((its - by) % (1 << bits), number)
                if from_ == number:
                    continue
                beyond = (one * size - first[number].base + first[from_].base) % (1 << bits)
                if beyond <= first[number].bytes or beyond >= (1 << bits) - first[from_].bytes:
                    return number, from_
        return None

    def number_at(self, address: int) -> int | None:
        """The buffer at an address of the first recording."""
        found = self._looked_up(0, address)
        return None if found is None else found[0]

    def in_launch(self, one: RecordedLaunch, other: RecordedLaunch) -> Iterator[tuple[int, int, int]]:
        """Those in the arguments of a launch: the parameter's number from 0 on, byte, and buffer."""
        for parameter, (data, twin) in enumerate(zip(one.arguments, other.arguments, strict=False)):
            for at in range(0, min(len(data), len(twin)) // 2 - 7, 8):
                words = [bytes.fromhex(each[2 * at : 2 * at + 16]) for each in (data, twin)]
                if words[0] != words[1] and (found := self.number_at(int.from_bytes(words[0], "little"))) is not None:
                    yield parameter, at, found

    def _looked_up(self, which: int, word: int) -> Place | None:
        bases, buffers = self._both[which]
        at = bisect_right(bases, (word, len(bases)))
        if not at:
            return None
        base, number = bases[at - 1]
        return (number, word - base) if word - base <= buffers[number].bytes else None
