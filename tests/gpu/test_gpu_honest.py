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
    """The simulator's verdict on a case, as it comes: it works while the GPU does.

    One process of several does not know which cases come to it: it begins each with its test, on its share of cores.
    """
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    calls = [item.callspec for item in request.session.items if item.path == request.path and "[" in item.name]
    with ThreadPoolExecutor(max(1, ((os.cpu_count() or 1) - 2) // processes)) as pool:
        begun = {}

        def simulation_of(case):
            if case.name not in begun:
                begun[case.name] = pool.submit(corpus.grade, case, gpu_toolbox, "sim", arch=gpu_toolbox.gpu.arch)
            return begun[case.name]

        if processes == 1:
            for call in calls:
                simulation_of(call.params["case"])
        yield simulation_of
        pool.shutdown(cancel_futures=True)


@pytest.mark.gpu
@pytest.mark.parametrize("case", [*HONEST, *SUSPICIOUS], ids=lambda case: case.name)
def test_an_honest_kernel_passes_as_on_the_simulator(case, gpu_toolbox, simulated):
    simulation = simulated(case)
    verdict = corpus.grade(case, gpu_toolbox, rehearse=False, timing=False)
    assert verdict.status is Status.PASSED, f"{verdict.phase}: {verdict.message}\n{verdict.hint}"
    assert len(verdict.correctness.trials) == verdict.correctness.planned_trials
    other = simulation.result()
    assert other.status in (Status.PASSED, Status.UNSUPPORTED), f"{other.phase}: {other.message}"


@pytest.mark.gpu
def test_a_referee_looks_with_device_code_of_its_own(gpu_toolbox):
    assert gpu_toolbox.gpu.facts()["own_code"], gpu_toolbox.gpu.log.read_text()


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
