"""Every honest kernel passes on the GPU, as it does on the simulator where that can run it."""

import corpus
import pytest

from common.contract import Status

HONEST = corpus.honest()
SUSPICIOUS = corpus.suspicious()


@pytest.mark.gpu
@pytest.mark.parametrize("case", [*HONEST, *SUSPICIOUS], ids=lambda case: case.name)
def test_an_honest_kernel_passes_as_on_the_simulator(case, gpu_workshop):
    verdict = corpus.grade(case, gpu_workshop, rehearse=False, timing=False)
    assert verdict.status is Status.PASSED, f"{verdict.phase}: {verdict.message}\n{verdict.hint}"
    assert len(verdict.correctness.trials) == verdict.correctness.planned_trials
    simulated = corpus.grade(case, gpu_workshop, "sim", arch=gpu_workshop.gpu.arch)
    assert simulated.status in (Status.PASSED, Status.UNSUPPORTED), f"{simulated.phase}: {simulated.message}"


@pytest.mark.gpu
@pytest.mark.parametrize("case", SUSPICIOUS, ids=lambda case: case.name)
def test_a_suspicious_honest_kernel_is_timed(case, gpu_workshop):
    verdict = corpus.grade(case, gpu_workshop)
    assert verdict.status is Status.PASSED, f"{verdict.phase}: {verdict.message}\n{verdict.hint}"
    assert verdict.timing.launches >= 10
    assert verdict.timing.checked_launches >= 1
    assert verdict.reward.value > 0


def test_the_suspicious_kernels_say_what_they_are_there_for():
    assert len(SUSPICIOUS) >= 8
    assert len({case.head["style"] for case in SUSPICIOUS}) == len(SUSPICIOUS)
