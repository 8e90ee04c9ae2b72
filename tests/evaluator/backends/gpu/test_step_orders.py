"""Steps of a plan as a runner, and a process that a tool watches, take them."""

from evaluator.backends.gpu.runner import tool_target
from evaluator.backends.gpu.shared_memory import BufferRegion, Layout, step_order
from evaluator.backends.session import BufferCopy, BufferFill, Entry, KernelLaunch, Packed, Parameter, Pointer

PLACES = Layout((BufferRegion("x", 1024, 64, 4), BufferRegion("y", 4096, 64, 4)), 8192)
ENTRY = Entry("k", "k", (Parameter("n", "int", "int", 4, 0), Parameter("pair", "Pair", "struct", 24, 8)))
PAIR = Packed(bytes([7, 0, 0, 0]) + bytes(20), ((8, Pointer("x", 16)), (16, Pointer("y"))))
LAUNCH = KernelLaunch("k", (1, 1, 1), (1, 1, 1), 0, False, (bytes([5, 0, 0, 0]), PAIR))


def order(step, places=PLACES):
    return step_order(step, places, {"k": ENTRY})


def test_addresses_in_structs_have_places_of_their_own():
    made = order(LAUNCH)
    assert made["arguments"] == (bytes([5, 0, 0, 0]) + bytes(4) + PAIR.data).hex()
    assert made["pointers"] == [(16, 1024 + 16), (24, 4096)]
    assert made["offsets"] == [0, 8]


def test_stretches_and_variables_are_told():
    fill = order(BufferFill("y", b"\1\2", 8, 16))
    assert fill == {"step": "fill", "variable": None, "offset": 4104, "bytes": 16, "pattern": "0102"}
    assert order(BufferFill("y", b"\0"))["bytes"] == 64
    assert order(BufferFill("y", b"\0", 8))["bytes"] == 56
    copy = order(BufferCopy("x", "y", 4, 8, 12))
    assert copy == {"step": "copy", "variable": None, "offset": 4104, "source": 1028, "bytes": 12}
    variable = order(BufferCopy("x", "filter", 4, 8, 12, variable=True))
    assert (variable["variable"], variable["offset"]) == ("filter", 8)


def test_a_watched_process_puts_addresses_in_the_place_of_numbers():
    number = 1 << tool_target.OFFSET_BITS
    places = Layout((BufferRegion("x", 0, 64, 4), BufferRegion("y", number, 64, 4)), 0)
    addresses = [0x7000, 0x9000]
    launch = tool_target.placed(order(LAUNCH, places), addresses)
    assert launch["pointers"] == [(16, 0x7010), (24, 0x9000)]
    copy = tool_target.placed(order(BufferCopy("x", "y", 4, 8, 12), places), addresses)
    assert (copy["source"], copy["offset"]) == (0x7004, 0x9008)
    filled = tool_target.placed(order(BufferFill("v", b"\0", 4, 8, variable=True), places), addresses)
    assert (filled["variable"], filled["offset"]) == ("v", 4)
