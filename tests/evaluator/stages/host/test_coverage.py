"""What a profile says about a submission, and who may run host code at all."""

import pytest

from common.contract import Settings, Status
from evaluator.sandbox.host.task_group import TaskGroup
from evaluator.sandbox.sandbox import Isolation
from evaluator.stages.host.coverage import coverage_of, kernels_of_text, ruling_on_coverage
from evaluator.stages.host.permission import why_not_here

TEXT = '''
@triton.jit
def scale_kernel(x, n: tl.constexpr): ...
source = """
template <typename T>
__global__ void __launch_bounds__(256) add_one(T* x) { }
"""
'''


def test_kernels_of_a_text_are_known_by_name():
    assert kernels_of_text(TEXT) == {"scale_kernel", "add_one"}


@pytest.mark.parametrize(
    ("spent", "share", "libraries"),
    [
        ([("add_one<float>(float*)", "kernel", 30), ("void gemm<float>(int)", "kernel", 10)], 0.75, ("gemm",)),
        ([("scale_kernel", "kernel", 30), ("Memcpy DtoD", "copy", 10), ("aten::clone", "operator", 50)], 0.75, None),
        ([("aten::relu", "operator", 9.0)], 0.0, ("aten::relu",)),
        ([], None, ()),
    ],
)
def test_coverage_is_the_share_of_its_own_kernels(spent, share, libraries):
    found = coverage_of(spent, kernels_of_text(TEXT))
    assert found.share == share
    assert libraries is None or found.libraries == libraries


def test_the_caller_can_ask_for_a_share():
    found = coverage_of([("aten::relu", "operator", 9.0)], frozenset())
    assert ruling_on_coverage(found, None) is None
    assert ruling_on_coverage(found, 0.0) is None
    ruling = ruling_on_coverage(found, 0.5)
    assert ruling.status is Status.REJECTED
    assert "0.0% of the time" in ruling.message
    assert ruling_on_coverage(coverage_of([], frozenset()), 0.5).status is Status.UNSUPPORTED


ALL = frozenset(Isolation)


@pytest.mark.parametrize(
    ("asked", "word", "backend", "promises", "groups", "said"),
    [
        ("off", "on", "gpu", ALL, True, "does not ask"),
        ("allowed", "on", "sim", ALL, True, "needs a GPU"),
        ("allowed", "off", "gpu", ALL, True, "ASSAY_HOST_TIER=off"),
        ("always", "auto", "gpu", ALL - {Isolation.NETWORK}, True, "(network)"),
        ("allowed", "auto", "gpu", ALL, False, "pids control group"),
        ("allowed", "auto", "gpu", ALL, True, None),
        ("allowed", "on", "gpu", frozenset(), False, None),
    ],
)
def test_who_may_run_host_code(monkeypatch, asked, word, backend, promises, groups, said):
    class Group:
        def close(self):
            pass

    monkeypatch.setattr(TaskGroup, "made", lambda tasks: Group() if groups else None)
    why = why_not_here(Settings(host_tier=asked), word, backend, promises)
    assert why is None if said is None else said in why
