"""The arguments of a launch, from their bytes in two recordings to what a plan says of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from common.launch_plan import AddressInArgument, RawArgument
from evaluator.backends.session import Parameter
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
            raise unstable(f"{said} is {_few(data)} in one run and {_few(bytes.fromhex(other))} in the next")
        if not found and parameter.kind in ("int", "uint"):
            return int.from_bytes(data, "little", signed=parameter.kind == "int")
        if not found and parameter.kind == "pointer" and not any(data):
            return 0
        if parameter.kind == "pointer" and found and not found[0].offset_bytes:
            return found[0].buffer
        return RawArgument(data=bytes(plain).hex(), addresses=tuple(found))


def _without_padding(data: str, parameter: Parameter) -> str:
    """The bytes of an argument, in hexadecimal, with 0 where the host leaves what was there before."""
    for start, end in parameter.padding:
        data = f"{data[: 2 * start]}{'00' * (end - start)}{data[2 * end :]}"
    return data


def _few(data: bytes) -> str:
    return data.hex() if len(data) <= 16 else f"{data[:16].hex()}…"
