"""What the sandbox starts: Triton is imported once, and each call of the submission gets a process forked from here.

Beside it lie `request.json` and the submission as `kernel.py`. Call NUMBER leaves `recording.NUMBER`, and how it
ended is a line of stdout: `NUMBER exit CODE`, `NUMBER signal NUMBER`, `NUMBER late` (the Python took too long) or
`NUMBER slow` (compiling did). The first that leaves nothing is the last. All kernels go into `kernels.json`.
"""

import gc
import importlib.util
import json
import mmap
import os
import re
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from evaluator.backends.model_binding import outputs_of
from evaluator.stages.lift.triton.inside.dtypes import DTYPES
from evaluator.stages.lift.triton.inside.failures import WrongResultError, failure_of
from evaluator.stages.lift.triton.inside.memory import NotRecordedError, RecordedMemory
from evaluator.stages.lift.triton.inside.models import Model, add_modules
from evaluator.stages.lift.triton.inside.recording_driver import (
    Kernels,
    RecordingDriver,
    activate,
    assume_no_multiples,
    spare_the_key,
    stop_at_ptx,
)
from evaluator.stages.lift.triton.inside.stand_in_tensor import StandInTensor
from evaluator.stages.lift.triton.inside.stand_in_torch import install_stand_in, torch_for

SOURCE: Final = "kernel.py"
_MODULE: Final = "kernel"
_LOOK_S: Final = 0.005
_ASLEEP: Final = 6.0
"""How much longer than its processor time a call may take, all in all, beside what it compiles."""
_CPUCLOCK_SCHED: Final = 2
"""Of the clock of another process (clock_getcpuclockid(3))."""
_COMPILES: Final = 1
"""What the byte that parent and child share says while a kernel is compiled."""


def main() -> None:
    """Carry out all calls of the request, one after another."""
    request = json.loads(Path("request.json").read_bytes())
    os.environ["TRITON_CACHE_DIR"] = os.path.abspath("cache")
    # Triton imports PyTorch where it is installed, for the type of its tensors: two seconds, and none comes here.
    sys.modules["torch"] = None  # type: ignore[assignment]
    spare_the_key()  # imports Triton, once for all children
    stop_at_ptx()
    from evaluator.stages.lift.triton.inside.warm_up import compile_one

    compile_one(request["capability"], request["device"])
    gc.collect()
    gc.freeze()  # or a collection in each child would copy all of it
    shared = mmap.mmap(-1, mmap.PAGESIZE)
    left_s = request["compile_s"]
    for number, call in enumerate(request["calls"]):
        how, compiled_s = _carried_out(number, call, request, shared, left_s)
        left_s -= compiled_s
        sys.stdout.write(f"{number} {how}\n")
        sys.stdout.flush()
        if how != "exit 0":
            break
    _gather()


def _carried_out(
    number: int, call: Mapping[str, Any], request: Mapping[str, Any], shared: Any, compile_s: float
) -> tuple[str, float]:
    """How a call ended, and the processor seconds that it compiled for.

    Processor time is what is limited, since a busy machine is not the submission's fault; who sleeps meets another.
    """
    shared[0] = 0
    child = os.fork()
    if child == 0:
        try:
            _be_the_child(number, call, request, shared)
        finally:
            os._exit(70)
    used_s, slept_until_s = [0.0, 0.0], time.monotonic() + _ASLEEP * request["run_s"]
    before_s, how = 0.0, ""
    while not how:
        try:
            now_s = time.clock_gettime(~child << 3 | _CPUCLOCK_SCHED)
        except OSError:
            now_s = before_s  # it has ended
        compiles = shared[0] == _COMPILES
        used_s[compiles] += now_s - before_s
        before_s = now_s
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            how = f"exit {code}" if code >= 0 else f"signal {-code}"
        elif used_s[True] > compile_s:
            how = "slow"
        elif used_s[False] > request["run_s"] or (not compiles and time.monotonic() > slept_until_s):
            how = "late"
        else:
            time.sleep(_LOOK_S)
    for end in (os.killpg, os.kill):
        try:
            end(child, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
    if how in ("late", "slow"):
        os.waitpid(child, 0)
    return how, used_s[True]


def _be_the_child(number: int, call: Mapping[str, Any], request: Mapping[str, Any], shared: Any) -> None:
    os.setpgid(0, 0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    said = os.open("said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    for descriptor, to in ((nothing, 0), (said, 1), (said, 2)):
        os.dup2(descriptor, to)

    def compiling(begins: bool) -> None:
        shared[0] = _COMPILES if begins else 0

    memory, kernels = RecordedMemory(call["seed"]), Kernels()
    try:
        written: dict[str, Any] = _recorded(call, request, memory, kernels, compiling)
    except BaseException as error:
        written = {"failure": failure_of(error, SOURCE)}
    for digest, kernel in kernels.found.items():
        Path(f"kernel.{digest}").write_text(json.dumps(kernel))
    Path(f"recording.{number}").write_text(json.dumps(written))
    os._exit(0)


def _recorded(
    call: Mapping[str, Any], request: Mapping[str, Any], memory: RecordedMemory, kernels: Kernels, compiling: Any
) -> dict[str, Any]:
    facts = request["device"]
    torch = torch_for(memory, {name: request[name] for name in ("capability", "device_name", "device")})
    install_stand_in(torch)
    add_modules(torch, memory)
    from evaluator.stages.lift.triton.inside.copies import copied

    memory.copied = copied
    activate(RecordingDriver(memory, kernels, request["capability"], facts, compiling))
    if not call["specialised"]:
        assume_no_multiples()
    # The first set of tensors is of the sizes that count, which are the last.
    sets = [
        [
            StandInTensor(memory, DTYPES[kind], shape, memory.allocate(_bytes(kind, shape)))
            for kind, shape in given["tensors"]
        ]
        for given in (call["calls"][-1], call["calls"][0])
    ]
    spec = importlib.util.spec_from_file_location(_MODULE, os.path.abspath(SOURCE))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = module
    spec.loader.exec_module(module)
    for at_sizes in call["calls"]:
        _called(at_sizes, sets, module, request["entry"], memory)
    return {
        "recording": {
            "buffers": memory.buffers,
            "steps": memory.steps,
            "streams": 1 + len(memory.non_blocking),
            "non_blocking": memory.non_blocking,
            "calls": memory.calls,
        },
    }


def _called(
    call: Mapping[str, Any],
    sets: list[list[StandInTensor]],
    module: ModuleType,
    entry: str,
    memory: RecordedMemory,
) -> None:
    """Make the calls at one set of sizes."""
    model = Model(vars(module), call["model"]) if call["model"] else None
    for each_set in call["sets"]:
        memory.begin_call()
        tensors = [one.clone() if number in call["changed"] else one for number, one in enumerate(sets[each_set])]
        arguments = [_passed(tensors, *each) for each in call["arguments"]]
        keywords = {name: _passed(tensors, *each) for name, each in call["keywords"].items()}
        given = model(tensors) if model else getattr(module, entry)(*arguments, **keywords)
        if call["results"]:
            memory.calls[-1]["returned"] = _returned(given, [tensors[number] for number in call["results"]])


def _passed(tensors: list[Any], kind: str, value: Any) -> Any:
    return tensors[value] if kind == "tensor" else tuple(value) if kind == "numbers" else value


def _returned(given: Any, wanted: list[StandInTensor]) -> list[dict[str, Any]]:
    """What the function returned in the place of the outputs, which are `wanted`."""
    results = outputs_of(given)
    said = ", ".join(f"{one.dtype}{list(one.shape)}" for one in wanted)
    if len(results) != len(wanted) or not all(isinstance(one, StandInTensor) for one in results):
        got = ", ".join(
            str(one.dtype) + str(list(one.shape)) if isinstance(one, StandInTensor) else type(one).__name__
            for one in results
        )
        raise WrongResultError(f"it returns {got or 'nothing'}, and the problem's outputs are {said}")
    for output, result in zip(wanted, results, strict=True):
        result._memory.no_output(result.data_ptr())
        alike = tuple(result.shape) == tuple(output.shape) or output.numel() == 1
        truth = (DTYPES["bool"], DTYPES["uint8"])  # a problem has truth values as these
        types = result.dtype is output.dtype or (result.dtype in truth and output.dtype in truth)
        same = types and result.numel() == output.numel() and alike
        if not same:
            raise WrongResultError(f"it returns {result.dtype}{list(result.shape)}, and the output is {said}")
        if not result.is_contiguous():
            raise NotRecordedError("an output that is not contiguous")
    return [
        {
            "address": one.data_ptr(),
            "type": one.dtype.name,
            "shape": list(one.shape),
            "contiguous": True,
            "on_device": True,
        }
        for one in results
    ]


def _bytes(kind: str, shape: list[int]) -> int:
    size = DTYPES[kind].itemsize
    for extent in shape:
        size *= extent
    return size


def _gather() -> None:
    """All kernels in one file: which there are, nobody outside can know beforehand."""
    names = [name for name in os.listdir() if re.fullmatch(r"kernel\.[0-9a-f]{64}", name)]
    found = {name.partition(".")[2]: json.loads(Path(name).read_bytes()) for name in sorted(names)}
    Path("kernels.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
