"""Runs one PTX text on the simulator and on the interpreter, from the same memory."""

from collections.abc import Mapping
from types import TracebackType
from typing import Self

import numpy as np
from interpreter import Machine

from common.contract import Settings
from evaluator.backends.session import (
    Buffer,
    BufferCopy,
    BufferFill,
    Entry,
    KernelLaunch,
    Parameter,
    PlanRun,
    Pointer,
    Program,
    RunOutcome,
)
from evaluator.backends.sim.backend import Simulator
from evaluator.backends.sim.ptx import model, parser
from evaluator.problems.problem import Array

POISON = 0xCD
HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"


def entries_of(module: model.Module) -> tuple[Entry, ...]:
    """Entries as compilation would find them, with every parameter a pointer."""
    entries = []
    for function in module.functions.values():
        if function.is_entry:
            parameters, top = [], 0
            for v in function.parameters:
                top = -(-top // v.align) * v.align
                parameters.append(Parameter(v.name, v.type, "pointer", v.size_bytes, top))
                top += v.size_bytes
            entries.append(Entry(function.name, function.name, tuple(parameters)))
    return tuple(entries)


class Duel:
    """One program, loaded on both."""

    def __init__(self, simulator: Simulator, program: "str | Program") -> None:
        text = program if isinstance(program, str) else program.ptx
        self.module = parser.parse_ptx(text)
        if isinstance(program, str):
            program = Program(text, entries_of(self.module), "sm_80")
        self.program = program
        # These programs are larger than anyone's: a limit that is right for a submission is none for them.
        settings = Settings(memory_bytes=2 << 30).model_copy(update={"compile_timeout_s": 300.0})
        self.session = simulator.prepare(program, settings)
        self.machine = Machine(self.module, POISON)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.session.__exit__(kind, error, trace)

    def simulate(
        self, buffers: tuple[Buffer, ...], steps: tuple, time_limit_s: float = 60, schedule: int = 0
    ) -> RunOutcome:
        return self.session.run(PlanRun(buffers, steps, POISON, time_limit_s, schedule=schedule))

    def interpret(self, buffers: tuple[Buffer, ...], steps: tuple) -> dict[str, bytes]:
        """What the interpreter leaves in the buffers."""
        machine = self.machine
        machine.steps = 0
        keep = dict(machine.regions)
        places = {}
        for b in buffers:
            content = (
                bytes([POISON]) * b.size_bytes if b.content is None else np.ascontiguousarray(b.content).tobytes()
            )
            places[b.name] = machine.allocate(bytearray(content))
        for step in steps:
            if isinstance(step, KernelLaunch):
                entry = next(e for e in self.program.entries if e.symbol == step.symbol)
                block = bytearray(max((p.offset + p.size_bytes for p in entry.parameters), default=0))
                for parameter, argument in zip(entry.parameters, step.arguments, strict=True):
                    data = (
                        places[argument.buffer].to_bytes(8, "little") if isinstance(argument, Pointer) else argument
                    )
                    block[parameter.offset : parameter.offset + len(data)] = data
                machine.launch(step.symbol, step.grid, step.block, bytes(block), step.shared_bytes, step.cooperative)
            elif isinstance(step, BufferFill):
                region = machine.regions[places[step.buffer] >> 40]
                region[:] = step.pattern * (len(region) // len(step.pattern))
            elif isinstance(step, BufferCopy):
                machine.regions[places[step.target] >> 40][:] = machine.regions[places[step.source] >> 40]
        found = {b.name: bytes(machine.regions[places[b.name] >> 40]) for b in buffers if b.role != "temporary"}
        machine.regions = keep
        return found

    def outputs(
        self,
        inputs: Mapping[str, Array],
        output_bytes: int,
        kernel: str = "k",
        grid: int | tuple[int, int, int] = 1,
        block: int | tuple[int, int, int] = 32,
        shared_bytes: int = 0,
        time_limit_s: float = 60,
        schedule: int = 0,
    ) -> tuple[bytes, bytes]:
        """Run `kernel(inputs…, out)` on both: the simulator's output, the interpreter's."""
        buffers = (
            *(Buffer(name, "input", array.nbytes, array.itemsize, array) for name, array in inputs.items()),
            Buffer("out", "output", output_bytes, 4, None),
        )
        steps = (
            KernelLaunch(
                kernel,
                (grid, 1, 1) if isinstance(grid, int) else grid,
                (block, 1, 1) if isinstance(block, int) else block,
                shared_bytes,
                False,
                tuple(Pointer(b.name) for b in buffers),
            ),
        )
        outcome = self.simulate(buffers, steps, time_limit_s, schedule)
        assert outcome.fault is None, outcome.fault
        return bytes(outcome.contents["out"]), self.interpret(buffers, steps)["out"]
