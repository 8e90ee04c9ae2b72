"""The C++ that a submission of the host tier has compiled: built ahead, in the sandbox for compilers."""

import re
from typing import Final

from common.contract import Dialect
from evaluator.backends.prebuilt import BuiltLibrary, ExtensionCall
from evaluator.errors import Ruling
from evaluator.pipeline.grading_job import GradingJob
from evaluator.stages.host.extension_build import ExtensionBuild, ExtensionText, build_ruling
from evaluator.stages.host.torch_package import find_torch
from evaluator.stages.host.written_functions import call_of_extension, call_of_python
from evaluator.stages.lift.binding import LiftRefusedError
from evaluator.stages.screen.screening import LIFTED, screen

_COMPILES: Final = re.compile(r"\bload_inline\b")
_OF_CUDA: Final = re.compile(r"__global__|<<<|\bcuda\w|\bat::cuda\b|\bc10::cuda\b|\.cuh\b")
_NAME: Final = "extension"


def compiled_texts(job: GradingJob, source: str, dialect: Dialect) -> tuple[ExtensionText, ...]:
    """What is to be compiled for a submission. Raises LiftRefusedError, InfrastructureError."""
    if dialect == "torch-extension":
        # nvcc reads headers three times; what uses nothing of it need not go through it.
        cpp, cuda = ((), (source,)) if _OF_CUDA.search(source) else ((source,), ())
        return (ExtensionText(_NAME, cpp, cuda, whole=True),)
    if dialect != "kernelbench" or not _COMPILES.search(source):
        return ()
    from evaluator.stages.lift.kernelbench.solution import Solution

    found = Solution(
        source, job.problem, job.submission.settings, job.toolbox.sandbox, job.submitted.arch
    ).compiled_texts()
    return tuple(
        ExtensionText(one.name, one.sources[: one.cpp], one.sources[one.cpp :], one.functions, one.flags)
        for one in found
    )


def built(
    job: GradingJob, source: str, dialect: Dialect
) -> tuple[tuple[BuiltLibrary, ...], ExtensionCall | None] | Ruling:
    """The modules, and what of an extension is called; or why there are none. Raises InfrastructureError."""
    toolbox, submission = job.toolbox, job.submission
    cache = toolbox.cache.of_caller(toolbox.caller) if toolbox.caller else toolbox.cache
    libraries: list[BuiltLibrary] = []
    try:
        call = call_of_extension(source, job.problem)[0] if dialect == "torch-extension" else None
        if dialect == "triton":
            call = call_of_python(source, job.problem)
        for text in compiled_texts(job, source, dialect):
            # Each file as it is compiled: a line may begin in one text and end in the next.
            for unit in text.units().values():
                if (ruling := screen(unit, policy=LIFTED).ruling) is not None:
                    return ruling
            build = ExtensionBuild(
                text,
                submission.settings,
                job.submitted.arch,
                find_torch(),
                toolbox.toolchain,
                toolbox.sandbox,
                cache,
            )
            libraries.append(build.library())
    except LiftRefusedError as refusal:
        return build_ruling(refusal)
    return tuple(libraries), call
