"""The arguments of a launch, from their bytes in two recordings to what a plan says of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from common.contract import Status
from common.launch_plan import AddressInArgument, RawArgument
from evaluator.backends.session import Parameter
from evaluator.stages.lift.binding import LiftRefusedError
from evaluator.stages.lift.calls.address_pairs import AddressPairs
from evaluator.stages.lift.calls.returned import unstable

_UNDEFINED: Final = 0x7F
"""The byte that stands for one that nobody wrote: of such, a float is 3e38, an integer large, an address nowhere."""


@dataclass(frozen=True)
class ArgumentReader:
    """Reads both recordings of one argument. Raises LiftRefusedError where they are no plan."""

    addresses: AddressPairs
    named: Callable[[int, str], str]
    """The name of a buffer in the plan; raises LiftRefusedError with what is said of its place."""
    learn: Callable[[int, int, Parameter], None]
    """Is told of each buffer that a pointer leads to, with the byte in it."""
    called: Callable[[int], str]
    """A buffer in words, whatever has become of it."""

    def argument(self, said: str, parameter: Parameter, one: str, other: str) -> int | str | RawArgument:
        """What a plan says of it; `said`: which argument it is, in words."""
        if len(one) != 2 * parameter.size_bytes or len(other) != len(one):
            raise unstable(f"{said} has another size")
        data, twin = (
            bytes.fromhex(_without_padding(one, parameter)),
            bytearray.fromhex(_without_padding(other, parameter)),
        )
        found: list[AddressInArgument] = []
        plain = bytearray(data)
        for at in range(0, len(data) - 7, 8):
            words = [int.from_bytes(each[at : at + 8], "little") for each in (data, twin)]
            self._no_difference(said, parameter, *words)
            # In a struct a word that is no address is what host code never wrote: the end of a list that is not full,
            # what a union has beside the member that was set. There is in them what was on the stack.
            if words[0] == words[1] or (parameter.kind == "struct" and self.addresses.none_of_both(*words)):
                continue
            number, offset = self.addresses.place(said, *words)
            name = self.named(number, said)
            if parameter.kind == "pointer":
                self.learn(number, offset, parameter)
            found.append(AddressInArgument(at=at, buffer=name, offset_bytes=offset))
            plain[at : at + 8] = twin[at : at + 8] = bytes(8)
        if parameter.kind == "struct":
            for at, pair in enumerate(zip(plain, twin, strict=True)):
                if pair[0] != pair[1]:
                    plain[at] = twin[at] = _UNDEFINED
        if plain != twin:
            if len(plain) == 4:
                self._no_difference(said, parameter, *(int.from_bytes(each, "little") for each in (plain, twin)))
            raise unstable(f"{said} is {_few(data)} in one run and {_few(bytes.fromhex(other))} in the next")
        if not found and parameter.kind in ("int", "uint"):
            return int.from_bytes(data, "little", signed=parameter.kind == "int")
        if not found and parameter.kind == "pointer" and not any(data):
            return 0
        if parameter.kind == "pointer" and found and not found[0].offset_bytes:
            return found[0].buffer
        return RawArgument(data=bytes(plain).hex(), addresses=tuple(found))

    def _no_difference(self, said: str, parameter: Parameter, one: int, other: int) -> None:
        """Raise LiftRefusedError where the words are how far two buffers are apart."""
        bits = 8 * min(8, parameter.size_bytes)
        if one == other or (bits == 64 and not self.addresses.none_of_both(one, other)):
            return
        if found := self.addresses.apart(one, other, bits):
            to, from_ = map(self.called, found)
            holds = "holds" if parameter.kind == "struct" else "is"
            raise LiftRefusedError(
                Status.REJECTED,
                f"{said[0].upper()}{said[1:]} {holds} the difference of addresses in two arrays, {to} and {from_}: "
                "it changes with where the arrays lie.",
                "Subtract addresses in one array only, and pass a pointer into each array to the kernel.",
            )


def _without_padding(data: str, parameter: Parameter) -> str:
    """The bytes of an argument, in hexadecimal, with 0 where the host leaves what was there before."""
    for start, end in parameter.padding:
        data = f"{data[: 2 * start]}{'00' * (end - start)}{data[2 * end :]}"
    return data


def _few(data: bytes) -> str:
    return data.hex() if len(data) <= 16 else f"{data[:16].hex()}…"
