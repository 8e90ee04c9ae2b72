"""The program's machine code once more, with its table of lines, for tools that name the line of what they find.

ptxas makes the same code with the table as without it. What is graded is made without: it is shared by sources that
differ in their lines only.
"""

from typing import Final

from evaluator.backends.session import Program
from evaluator.sandbox.retry import run_in_tries
from evaluator.sandbox.sandbox import Job, Limits, Sandbox
from evaluator.stages.compile.toolchain import Toolchain

_PTX, _CUBIN = "kernel.ptx", "kernel.cubin"
_LIMIT_S: Final = 20.0
_FOR_PTXAS: Final = "-maxrregcount="


def with_lines(program: Program, flags: tuple[str, ...], toolchain: Toolchain, sandbox: Sandbox) -> bytes:
    """The cubin with lines; the program's own where there is none to be had. `flags` are `Compiled.flags`.

    Raises SandboxError, StorageError.
    """
    own = [flag for flag in flags if flag.startswith(_FOR_PTXAS)]
    run = run_in_tries(
        sandbox,
        Job(
            argv=(str(toolchain.ptxas), "-lineinfo", f"-arch={program.arch}", *own, "-o", _CUBIN, _PTX),
            files={_PTX: program.ptx.encode()},
            collect=(_CUBIN,),
            readable=toolchain.readable,
            environment={"LC_ALL": "C"},
            limits=Limits(wall_s=_LIMIT_S, cpu_s=_LIMIT_S),
        ),
    )
    return run.files.get(_CUBIN, program.cubin) if run.succeeded else program.cubin
