"""One kernel, graded as KernelBench's published evaluator does it, to measure ours beside it.

Source of the method: Ouyang et al., "KernelBench: Can LLMs Write Efficient GPU Kernels?" (2025), and the description
of its evaluation: the kernel is built with `torch.utils.cpp_extension.load_inline` in a fresh process, its output is
compared with PyTorch's on 5 random inputs, and 100 trials are timed with CUDA events, each synchronised. Written by
us from that description; kinder than the original in that inputs are drawn on the device.

    python benchmarks/gpu/kernelbench_way.py TASK.json      ({"problem", "source", "build_folder"}; prints JSON)
"""

import json
import os
import re
import statistics
import sys
from pathlib import Path
from typing import Any

from common.contract import Submission
from common.expressions import evaluate_expression
from common.launch_directives import parse_directives
from common.launch_plan import Launch
from evaluator.problems.catalogue import find_problem
from evaluator.problems.problem import Problem

_CORRECTNESS_TRIALS, _TIMED_TRIALS, _WARM_UPS = 5, 100, 3


def host_code(problem: Problem, source: str) -> str:
    """The source and a function `forward` that launches its one kernel at the problem's timing sizes.

    Float32 tensors and one launch only.
    """
    plan = parse_directives(source)
    assert plan is not None
    (step,) = plan.steps
    assert isinstance(step, Launch)
    sizes = problem.timing_sizes
    scalars = {scalar.name: f"{scalar.value!r}f" for scalar in problem.scalars}
    tensors = {tensor.name for tensor in (*problem.inputs, *problem.outputs)}
    (output,) = problem.outputs
    arguments = []
    for argument in step.args:
        name = str(argument)
        if name in tensors:
            arguments.append(f"{name}.data_ptr<float>()")
        else:
            arguments.append(scalars.get(name) or str(evaluate_expression(name, sizes)))
    shape = ", ".join(str(extent) for extent in output.shape_at(sizes))
    parameters = ", ".join(f"torch::Tensor {tensor.name}" for tensor in problem.inputs)
    where = f"{_extents(step.grid, sizes)}, {_extents(step.block, sizes)}"
    return (
        f"{source}\n"
        f"torch::Tensor forward({parameters})\n{{\n"
        f"    auto {output.name} = torch::empty({{{shape}}}, {problem.inputs[0].name}.options());\n"
        f"    {step.kernel}<<<{where}>>>({', '.join(arguments)});\n"
        f"    return {output.name};\n}}\n"
    )


def declaration(problem: Problem) -> str:
    """What `load_inline` binds."""
    return f"torch::Tensor forward({', '.join(f'torch::Tensor {tensor.name}' for tensor in problem.inputs)});"


def _extents(extents: Any, sizes: Any) -> str:
    return f"dim3({', '.join(str(evaluate_expression(extent, sizes)) for extent in extents)})"


def main() -> None:
    task = json.loads(Path(sys.argv[1]).read_text())
    os.environ["TORCH_EXTENSIONS_DIR"] = task["build_folder"]
    submission = Submission(problem=task["problem"], source=task["source"])
    problem = find_problem(submission.problem)
    # Slow to import: 2 to 3 s, which are part of what is measured.
    import torch
    from torch.utils.cpp_extension import load_inline

    from evaluator.backends.gpu.tensors import eager

    major, minor = torch.cuda.get_device_capability()
    os.environ.setdefault("TORCH_CUDA_ARCH_LIST", f"{major}.{minor}")
    module = load_inline(
        name=re.sub(r"\W", "_", task["name"]),
        cpp_sources=declaration(problem),
        cuda_sources=host_code(problem, submission.source),
        functions=["forward"],
        extra_cuda_cflags=["-O3"],
    )
    shapes = [tensor.shape_at(problem.timing_sizes) for tensor in problem.inputs]

    def fresh() -> list[Any]:
        return [torch.randn(shape, device="cuda") for shape in shapes]

    right = True
    for _ in range(_CORRECTNESS_TRIALS):
        inputs = fresh()
        named = {tensor.name: value for tensor, value in zip(problem.inputs, inputs, strict=True)}
        expected = eager(problem, named, problem.timing_sizes)()
        torch.cuda.synchronize()
        right = right and bool(torch.allclose(module.forward(*inputs), expected, rtol=1e-2, atol=1e-2))
    inputs = fresh()
    for _ in range(_WARM_UPS):
        module.forward(*inputs)
    times_us = []
    for _ in range(_TIMED_TRIALS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        module.forward(*inputs)
        end.record()
        torch.cuda.synchronize()
        times_us.append(begin.elapsed_time(end) * 1000)
    print(json.dumps({"right": right, "latency_us": statistics.mean(times_us)}))


if __name__ == "__main__":
    main()
