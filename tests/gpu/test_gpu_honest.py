"""Every honest kernel passes on the GPU, as it does on the simulator where that can run it."""

import os
from concurrent.futures import ThreadPoolExecutor

import corpus
import pytest

from common.contract import Status

HONEST = corpus.honest()
SUSPICIOUS = corpus.suspicious()


@pytest.fixture(scope="module")
def simulated(request, gpu_toolbox):
    """The simulator's verdicts on the code under test, by name, as they come: it works while the GPU does."""
    calls = [item.callspec for item in request.session.items if item.path == request.path and "[" in item.name]
    cases = {call.params["case"].name: call.params["case"] for call in calls}
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 1) - 2)) as pool:
        arch = gpu_toolbox.gpu.arch
        yield {name: pool.submit(corpus.grade, case, gpu_toolbox, "sim", arch=arch) for name, case in cases.items()}
        pool.shutdown(cancel_futures=True)


@pytest.mark.gpu
@pytest.mark.parametrize("case", [*HONEST, *SUSPICIOUS], ids=lambda case: case.name)
def test_an_honest_kernel_passes_as_on_the_simulator(case, gpu_toolbox, simulated):
    verdict = corpus.grade(case, gpu_toolbox, rehearse=False, timing=False)
    assert verdict.status is Status.PASSED, f"{verdict.phase}: {verdict.message}\n{verdict.hint}"
    assert len(verdict.correctness.trials) == verdict.correctness.planned_trials
    other = simulated[case.name].result()
    assert other.status in (Status.PASSED, Status.UNSUPPORTED), f"{other.phase}: {other.message}"


@pytest.mark.gpu
@pytest.mark.parametrize("case", SUSPICIOUS, ids=lambda case: case.name)
def test_a_suspicious_honest_kernel_is_timed(case, gpu_toolbox):
    verdict = corpus.grade(case, gpu_toolbox)
    assert verdict.status is Status.PASSED, f"{verdict.phase}: {verdict.message}\n{verdict.hint}"
    assert verdict.timing.launches >= 10
    assert verdict.timing.checked_launches >= 1
    assert verdict.reward.value > 0


def test_the_suspicious_kernels_say_what_they_are_there_for():
    assert len(SUSPICIOUS) >= 8
    assert len({case.head["style"] for case in SUSPICIOUS}) == len(SUSPICIOUS)
