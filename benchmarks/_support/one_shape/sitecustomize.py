"""An Assay that verifies as KernelBench does, for an experiment: five inputs at one published shape, right within
1e-2 of the oracle or of its size; no other sizes, no hostile values, no probes. On a GPU the shape is the timed one.

Python imports a module of this name at its start where this folder is in PYTHONPATH. The processes of a service that
is started so judge otherwise; nothing of the product knows of it. Kinder than the original: on the simulator races
and stray accesses are still seen, where they happen at that shape, and times are Assay's own.
"""

import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

_JUDGES = {"evaluator.pipeline.sim_referee", "evaluator.pipeline.gpu.judging"}
"""The modules that plan the trials of a submission, under the name of one function."""
_TRIALS = 5


class _Loosened(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in _JUDGES:
            return None
        # Asked of the other finders, each module once.
        _JUDGES.remove(name)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        load = spec.loader.exec_module

        def loosened(module: ModuleType) -> None:
            load(module)
            module.trials_and_left_out = _one_shape

        spec.loader.exec_module = loosened  # type: ignore[method-assign]
        return spec


def _one_shape(problem, settings, generator, timed_too=False):  # type: ignore[no-untyped-def]
    from evaluator.problems.problem import Tolerance
    from evaluator.stages.verify.trials import PlannedTrial

    loose = Tolerance(1e-2, 1e-2, "as torch.allclose(rtol=1e-2, atol=1e-2)", any_length=True)
    sizes = problem.timing_sizes if timed_too else problem.example_sizes[0]
    return (PlannedTrial(sizes, problem.distributions[0], loose, False),) * _TRIALS, ()


sys.meta_path.insert(0, _Loosened())
