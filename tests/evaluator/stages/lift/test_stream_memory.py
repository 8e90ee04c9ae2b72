"""Memory that is taken and given back in the order of streams, in short programs."""

import pytest

from evaluator.stages.lift.recording import RecordedAllocation, RecordedFree, RecordedOrder
from evaluator.stages.lift.stream_memory import Issued, IssuedStep, misuse
from evaluator.stages.lift.stream_order import Touched

NON_BLOCKING = (7, 8, 9)


def issued(program: str) -> list[Issued]:
    """Of a program in short: `7.a` is a step on stream 7 on memory `a`; `+7.a` takes and `-7.a` gives back memory in
    the order of a stream, `-a` at once; `r7` and `w8` record and await one event, `h7` and `hd` let the host wait.
    """
    found: list[Issued] = []
    for word in program.split():
        stream = int(word[1]) if word[1:2].isdigit() else 0
        if word[0] in "+-":
            number = "abc".index(word[-1])
            taken = RecordedAllocation(allocate=number, stream=stream)
            found.append(
                taken if word[0] == "+" else RecordedFree(free=number, stream=stream if "." in word else None)
            )
        elif word[0].isdigit():
            found.append(IssuedStep(Touched("a launch of k", dict.fromkeys(word[2:], True)), int(word[0])))
        elif word == "hd":
            found.append(RecordedOrder(order="device"))
        else:
            found.append(RecordedOrder(order={"r": "record", "w": "wait", "h": "stream"}[word[0]], stream=stream))
    return found


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("7.a 8.b", None),
        ("+7.a 7.a -7.a", None),
        (
            "+7.a 7.a 8.a -7.a",
            "step 2 (a launch of k on stream 8) may still use 'a' when cudaFreeAsync gives it back",
        ),
        ("+7.a 7.a r7 w8 8.a r8 w7 -7.a", None),
        ("+7.a 7.a r7 w8 8.a -7.a", "step 2"),
        ("+7.a 7.a h7 -0.a", None),
        ("+7.a 7.a -0.a", "gives it back on the default stream"),
        ("+1.a 1.a -0.a +2.b 2.b -2.b", None),
        ("+1.a 1.a -2.a", "on stream 2"),
        # Each stream by itself: the pool lets the second wait.
        ("+7.a 7.a -7.a +8.b 8.b -8.b", None),
        ("+7.a 7.a -7.a +7.b 8.b", "step 2 (a launch of k on stream 8) may use 'b' while step 1"),
        ("+7.a 7.a -7.a +7.b r7 w8 8.b", None),
        ("+7.a 7.a -7.a +7.b h7 8.b", None),
        ("+7.a 7.a -7.a hd +7.b 8.b", None),
        ("+7.a +7.b 7.a -7.a 8.b", None),
        ("+7.a 8.a", None),
        # At once, which waits for nothing.
        ("+7.a 7.a -a +7.b 7.b", None),
        ("+7.a 7.a -a +8.b 8.b", "step 2"),
        ("+7.a 7.a h7 -a +8.b 8.b", None),
        ("7.a hd -a +8.b 8.b", None),
    ],
)
def test_memory_is_used_between_where_it_is_taken_and_given_back(program, said):
    found = misuse(issued(program), "abc", NON_BLOCKING)
    assert (said in found) if said else found is None, found
