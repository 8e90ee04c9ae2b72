"""The process in which a file of someone else computes answers, as the referee sees it.

The process is untrusted as the file is: what it says is checked for its form, and a process that says nothing any
more is a refusal of the file, unless someone outside ended it.
"""

import importlib.util
import json
import math
import re
import secrets
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from common.contract import form_of
from common.wire import DType
from evaluator.cancellation import CancelToken
from evaluator.errors import SandboxError, UsageError
from evaluator.foreign.description import MOST_EXTENT, MOST_SIZES, Description
from evaluator.foreign.inside.process import NO_PROCESS
from evaluator.foreign.zygote import KEPT, MEMORY_BYTES, ReferenceRoom, Zygote, message
from evaluator.problems.arrays import numpy_dtype
from evaluator.python_command import last_words
from evaluator.sandbox.retry import foreign, killed_from_outside
from evaluator.sandbox.sandbox import Sandbox, SandboxSession, SessionEndedError

MOST_TEXT_BYTES: Final = 1 << 20
"""As of a submission."""
MOST_INPUT_BYTES: Final = 64 << 20
"""Of all inputs and parameters: in float64, with noise and as results they take ten times as much."""
_DESCRIBE_S: Final = 60.0
"""PyTorch alone takes 2 s to import from a warm disk, and 15 s from a cold one."""
_ANSWER_S: Final = 60.0
"""Nine runs of the file in float64."""
_NEARLY: Final = 0.9
"""After this share of its time a process says what it is at."""
_UNDER_WAY: Final = "under way "
_MOST_HEADER_BYTES: Final = 4 << 20
MOST_OUTPUT_BYTES: Final = 4 * MOST_INPUT_BYTES
MOST_WORK: Final = 1 << 32
"""Operations: PyTorch takes seconds for them on a busy core, while learning, which looks for at most 2^29."""
NO_MOST_WORK: Final = 1 << 62
_MOST_ANSWER_BYTES: Final = 2 << 30
"""Of all tensors of one answer: values and scales of float32 outputs in float64 are four times as large as these."""


def usual_room() -> ReferenceRoom:
    """What a file may take where it is judged at sizes that the simulator affords."""
    return ReferenceRoom(MOST_INPUT_BYTES, MOST_OUTPUT_BYTES, MEMORY_BYTES, MOST_WORK)


def large_room() -> ReferenceRoom:
    """What a file may take that is judged at its own sizes, whatever they are."""
    return ReferenceRoom(8 * MOST_INPUT_BYTES, 2 * MOST_OUTPUT_BYTES, 4 * MEMORY_BYTES, NO_MOST_WORK)


EXPRESSION: Final = "the expression"
"""The name of an expression in messages, in the place of a file's: nobody has seen the file that becomes of it."""
WHAT_IS_NEEDED: Final = (
    "What states a problem must run with PyTorch on the CPU, without a network and without other files, and give the "
    "same finite answer with each call, which depends on each of its arguments."
)
"""In the place of a page: who sends a file to a service may have none."""
_SWAPPED: Final = (
    "It is a solution: it is graded in the kernel's place, for a file that states its problem with `Model`."
)
_REMEDIES: Final = (
    (r"has no class `Model`.*`ModelNew`", _SWAPPED),
    (r"torch_extensions|load_inline|cpp_extension|\bninja\b", _SWAPPED),
    (r"has no class `Model`", "Name the torch.nn.Module whose forward gives the answer `Model`, at the top level."),
    (r"no function `get_inputs`", "Define `get_inputs()`, which returns the list of forward's arguments."),
    (
        r"making the Model fails: TypeError: .*__init__\(\)",
        "Have `get_init_inputs()` return the list of the arguments of `Model.__init__`.",
    ),
    (
        r"get_inputs fails: TypeError: (?:missing a required|too many positional)",
        "Have `get_inputs()` return one value for each argument of forward, in order.",
    ),
    (
        r"draws random numbers",
        "Leave out what draws, or end `Model.__init__` with `self.eval()`, in which a dropout does nothing.",
    ),
    (
        r"it is not Python|JSON is read",
        "A problem is stated in Python for PyTorch (KernelBench, LeetGPU, Tensara), or in JSON (FlashInfer Trace).",
    ),
    (r"may take [\d,]+ here", "State it with smaller sizes, each a number that is assigned once."),
    (
        r"no output depends on",
        "Leave out of forward, and of what `get_inputs` returns, what the answer does not need.",
    ),
)


def remedy_for(refusal: str) -> str:
    """What to do about it: `refusal` is its message."""
    return next((remedy for said, remedy in _REMEDIES if re.search(said, refusal)), WHAT_IS_NEEDED)


RefusedAt: TypeAlias = Literal["reading", "calibrating", "judging"]
"""`reading`: it does not run, or has no form of a problem. `calibrating`: no tolerance tells right from wrong.
`judging`: its answer says nothing about a kernel."""


class ReferenceRefusedError(UsageError):
    """The file cannot be a problem, or not this one; the message names the file and, where it is known, the line."""

    at: RefusedAt = "reading"


class ReferenceTooLargeError(ReferenceRefusedError):
    """Its inputs are too large with these sizes; with others they may not be."""

    def __init__(
        self,
        message: str,
        constants: Mapping[str, int],
        fixed: Sequence[str] = (),
        found: int | None = None,
        of: str = "",
    ) -> None:
        super().__init__(message, "State it with smaller sizes, each a number that is assigned once.")
        self.constants = constants
        """The file's own, which can be changed."""
        self.fixed = fixed
        """Those of them that are changed only where others are not enough."""
        self._found, self._of = found, of

    def as_large_as(self, other: "ReferenceTooLargeError") -> bool:
        """Whether it is known to be no smaller than `other`: in the same unit, in the same place."""
        if self._found is None or other._found is None or self._of != other._of:
            return False
        return self._found >= other._found


class ReferenceEndedError(ReferenceRefusedError):
    """Its process ended, or had to be ended, instead of answering."""


def why_no_references(sandbox: Sandbox) -> UsageError | None:
    """Why no file of someone else can be carried out here, whatever is in it; None where one can."""
    if importlib.util.find_spec("torch") is None:
        return UsageError(
            "A problem in a PyTorch file needs PyTorch, which is not installed.", "pip install 'assay[references]'"
        )
    if sandbox.image_id is not None:
        return UsageError(
            "Problems of others cannot be read in Docker's sandboxes, whose image has no PyTorch.",
            "Set ASSAY_SANDBOX=bubblewrap where PyTorch is installed.",
        )
    return None


class ReferenceProcess:
    """One file in its sandbox. It starts with `start` or the first request and ends with `close`."""

    def __init__(
        self,
        sandbox: Sandbox,
        text: bytes,
        name: str,
        cancel_token: CancelToken | None = None,
        room: ReferenceRoom | None = None,
    ) -> None:
        """`name`: the file's, for messages. `cancel_token`: that of the work that it is for, where that may be
        cancelled. `room`: the usual one by default. Raises ReferenceRefusedError.
        """
        missing = why_no_references(sandbox)
        if missing is not None:
            raise missing
        if len(text) > MOST_TEXT_BYTES:
            raise ReferenceRefusedError(
                f"{name} has {len(text):,} bytes; a problem may have {MOST_TEXT_BYTES:,}.",
                "State it alone, without what it does not use: `get_inputs` can draw large tables.",
            )
        try:
            text.decode("utf-8")
        except UnicodeDecodeError as error:
            line = text[: error.start].count(b"\n") + 1
            raise ReferenceRefusedError(f"{name}:{line}: it is not text in UTF-8.") from error
        self._sandbox, self._text, self.name = sandbox, text, name
        self._zygote: Zygote | None = None
        self._in_order = True
        self._cancel_token = cancel_token or CancelToken()
        self._room = room or usual_room()
        self._left_s, self._granted_s = math.inf, math.inf

    def grant(self, time_s: float) -> None:
        """Give it so long for all that it is asked from now on, together."""
        self._left_s = self._granted_s = time_s

    def start(self) -> None:
        """Start the process, which takes seconds to be ready where none is at hand, without waiting for it."""
        if self._zygote is not None:
            return
        self._zygote = KEPT.take(self._sandbox, self._room)
        self._in_order = False
        try:
            self._zygote.begin(self._text, form_of(self._text), self._cancel_token)
            self._in_order = True
        except SessionEndedError as ended:
            raise self._ended(self._zygote.session, "begin", "", ended) from ended

    def close(self) -> None:
        """End the process, if there is one."""
        zygote, self._zygote = self._zygote, None
        if zygote is not None and self._in_order:
            KEPT.give_back(self._sandbox, zygote)
        elif zygote is not None:
            zygote.finish()

    def describe(self, sizes: Mapping[str, int], most_work: int = NO_MOST_WORK) -> Description:
        """With these values of the file's constants. Raises ReferenceRefusedError, InfrastructureError.

        `most_work`: operations above which it is refused as too large, where it may not take fewer anyway.
        """
        request = {"ask": "describe", "sizes": sizes, "most_work": min(most_work, self._room.work)}
        header, _ = self._ask(request, {}, _DESCRIBE_S, "be described")
        try:
            found = Description.from_json(json.dumps(header).encode())
            # The process refuses more, and may lie: the referee is not to draw what no memory holds.
            room = self._room
            for tensors, most in ((found.inputs, room.input_bytes), (found.outputs, room.output_bytes)):
                if sum(facts.size_bytes for facts in tensors) > most:
                    raise ValueError(f"tensors of more than {most:,} bytes")
            return found
        except ValueError as error:
            raise ReferenceRefusedError(f"{self.name}: its description is not one: {str(error)[:300]}.") from error

    def drawn(self, seed: int, names: Sequence[str], sizes: Mapping[str, int]) -> dict[str, NDArray[Any]]:
        """What the file makes of these inputs under a seed. Raises ReferenceRefusedError, InfrastructureError."""
        request = {"ask": "draw", "seed": seed, "names": list(names), "sizes": sizes}
        return self._ask(request, {}, _ANSWER_S, "draw its inputs")[1]

    def answered(self, inputs: Mapping[str, NDArray[Any]], sizes: Mapping[str, int]) -> dict[str, NDArray[Any]]:
        """`value_N` and `scale_N` of each output N, of these inputs. Raises as `drawn`."""
        return self._ask({"ask": "answer", "sizes": sizes}, inputs, _ANSWER_S, "answer")[1]

    def valued(self, inputs: Mapping[str, NDArray[Any]], sizes: Mapping[str, int]) -> dict[str, NDArray[Any]]:
        """`value_N` of each output N, of these inputs: a ninth of the work of `answered`. Raises as `drawn`."""
        return self._ask({"ask": "value", "moved": False, "sizes": sizes}, inputs, _ANSWER_S, "answer")[1]

    def valued_if_finite(
        self, inputs: Mapping[str, NDArray[Any]], sizes: Mapping[str, int]
    ) -> dict[str, NDArray[Any]] | None:
        """The same where it is finite also with each step moved by a rounding; else None. Raises as `drawn`."""
        told, found = self._ask({"ask": "value", "moved": True, "sizes": sizes}, inputs, _ANSWER_S, "answer")
        return found if told.get("stays_finite") is True else None

    def computed(
        self, inputs: Mapping[str, NDArray[Any]], how: str, sizes: Mapping[str, int]
    ) -> dict[str, NDArray[Any]]:
        """`value_N` of each output N, computed `how` (see `inside/server.py`). Raises as `drawn`."""
        request = {"ask": "compute", "how": how, "sizes": sizes}
        return self._ask(request, inputs, _ANSWER_S, "compute its answer")[1]

    def _ask(
        self, request: Mapping[str, Any], inputs: Mapping[str, NDArray[Any]], time_s: float, deed: str
    ) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        self.start()
        assert self._zygote is not None
        session, self._in_order = self._zygote.session, False
        listed = [{"name": name, "dtype": one.dtype.name, "shape": list(one.shape)} for name, one in inputs.items()]
        begun_s = time.monotonic()
        allowed_s = min(time_s, max(0.0, self._left_s))
        tag = f"{_UNDER_WAY}{secrets.token_hex(8)}"
        lateness = {"late_s": begun_s + _NEARLY * allowed_s, "tag": tag}
        encoded = json.dumps({**request, **lateness, "tensors": listed}).encode()
        try:
            session.allow(allowed_s)
            session.send(*message(encoded, sum(one.nbytes for one in inputs.values())))
            for one in inputs.values():
                session.send(np.ascontiguousarray(one).reshape(-1).view(np.uint8).data)
            header = self._header(session)
            named: dict[str, NDArray[Any]] = {}
            for one in header.pop("tensors"):
                received = sum(array.nbytes for array in named.values())
                named[one["name"]] = self._tensor(session, one, _MOST_ANSWER_BYTES - received)
            self._in_order = True
        except SessionEndedError as ended:
            late = time.monotonic() - begun_s >= allowed_s
            whole = f"all that is asked of it takes more than {self._granted_s:g} s"
            over = whole if allowed_s < time_s else f"it takes more than {time_s:g} s to {deed}"
            raise self._ended(session, deed, over if late else "", ended, tag) from ended
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            self.close()
            raise ReferenceRefusedError(f"{self.name}: its process answers in no form that is known.") from error
        finally:
            self._left_s -= time.monotonic() - begun_s
        if "refused" in header:
            raise self._refused(header)
        return header, named

    def _refused(self, header: Mapping[str, Any]) -> ReferenceRefusedError:
        said = str(header["refused"])[:1000].rstrip(". ")
        line = f":{header['line']}" if isinstance(header.get("line"), int) else ""
        message = f"{self.name}{line}: {said}."
        if self.name == EXPRESSION:
            message = f"{self.name} {said.removeprefix('forward ')}." if said.startswith("forward ") else message
            message = message.replace(f"{self.name}{line}:", f"{self.name}:", 1)
        constants = header.get("constants")
        if not isinstance(constants, dict) or len(constants) > MOST_SIZES:
            refused = ReferenceRefusedError(message, remedy_for(message))
            refused.at = "calibrating" if header.get("at") == "calibrating" else "reading"
            return refused
        numbers = {
            name: value for name, value in constants.items() if type(value) is int and 1 <= value < MOST_EXTENT
        }
        fixed, found = header.get("fixed"), header.get("found")
        return ReferenceTooLargeError(
            message,
            numbers,
            [name for name in numbers if isinstance(fixed, list) and name in fixed],
            found if isinstance(found, int) else None,
            str(header.get("of")),
        )

    @staticmethod
    def _header(session: SandboxSession) -> dict[str, Any]:
        (length,) = struct.unpack("<Q", session.receive(8))
        if length > _MOST_HEADER_BYTES:
            raise ValueError("a header without end")
        header: dict[str, Any] = json.loads(bytes(session.receive(length)))
        return header

    @staticmethod
    def _tensor(session: SandboxSession, listed: Mapping[str, Any], most_bytes: int) -> NDArray[Any]:
        shape, dtype = tuple(int(extent) for extent in listed["shape"]), numpy_dtype(DType(listed["dtype"]))
        size_bytes = math.prod(shape) * dtype.itemsize
        if min(shape, default=1) < 0 or size_bytes > most_bytes:
            raise ValueError(f"a tensor of shape {shape}")
        return np.frombuffer(session.receive(size_bytes), dtype).reshape(shape)

    def _ended(
        self, session: SandboxSession, deed: str, late: str, ended: SessionEndedError, tag: str = ""
    ) -> Exception:
        """What to raise where the process ended instead of answering; `late`: how it used up its time, if it did.

        `tag`: what begins the line in which the process says what of the file was under way then.
        """
        result = session.finish()
        said = result.stderr.decode(errors="replace")
        stage = re.search(rf"^{tag} (.+)$", said, re.M) if tag else None
        self.close()
        self._cancel_token.check()
        by = None if late else foreign(result)
        if by is not None:
            return killed_from_outside(by)
        if result.exit_code == NO_PROCESS:
            return SandboxError(
                f"This machine lets no more processes be started: none for {self.name}.",
                "Try again when less runs on it; a service needs fewer workers.",
            )
        if result.memory_exceeded:
            why = f"it takes more than the {self._room.memory_bytes >> 30} GiB of memory that it may"
        elif late:
            why = f"{late}, and {stage[1]} was not over" if stage else late
        elif result.limit_hit:
            why = f"its process met a limit, {result.limit_hit}"
        else:
            # The lines of that kind may be about a file of somebody else, which the process served before.
            said = last_words(re.sub(rf"^{_UNDER_WAY}.*$", "", said, flags=re.M), 300).strip()
            why = f"its process ended before it could {deed} ({ended}{' ' + said if said else ''})".replace("\n", " ")
        return ReferenceEndedError(f"{self.name}: {why}.", remedy_for(why))
