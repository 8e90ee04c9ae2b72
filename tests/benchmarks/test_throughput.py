"""The throughput benchmark's own logic: its fleet, what it says of a pass, and how it reads the referee's stacks."""

import time
from collections import Counter
from dataclasses import replace
from itertools import islice

import pytest

from benchmarks._support.policy_fleet import FleetKernel, fleet
from benchmarks._support.referee_stacks import profile_of
from benchmarks._support.served import served
from benchmarks._support.throughput_passes import Answered, Pass, ask, figures_of
from benchmarks.gpu.throughput import cost_of
from common.contract import Settings
from evaluator.problems.catalogue import find_problem


def test_half_of_the_fleet_is_slow_a_third_bad_and_no_two_are_alike():
    kernels = list(islice(fleet(), 600))
    assert Counter(kernel.kind for kernel in kernels) == {"slow": 300, "usual": 100, "bad": 200}
    assert len({kernel.source for kernel in kernels}) == 600
    assert {find_problem(kernel.problem).id for kernel in kernels} == {kernel.problem for kernel in kernels}
    text = "".join(kernel.source for kernel in kernels)
    assert all(word in text for word in ("cub/", "wmma", "cooperative_groups"))


def test_another_seed_gives_other_programs():
    one, other = ({kernel.source for kernel in islice(fleet(seed), 100)} for seed in (0, 1))
    assert not one & other


def answered(kind="usual", status="passed", took_s=1.0, referee_s=0.1, speedup=1.0):
    phases_s = {"compile": 0.5, "referee.verify": referee_s / 2, "referee.time": referee_s / 2}
    return Answered(FleetKernel("k", kind, "relu", ""), status, "", took_s, phases_s, speedup, 10, 30)


@pytest.mark.parametrize(
    ("kind", "status", "wrong"),
    [
        ("usual", "passed", False),
        ("slow", "incorrect", True),
        ("bad", "passed", True),
        ("bad", "timeout", False),
        ("bad", "internal_error", True),
    ],
)
def test_what_a_wrong_verdict_is(kind, status, wrong):
    assert answered(kind, status).wrong is wrong


def test_a_pass_says_how_many_how_long_and_what_they_cost():
    answers = (*[answered()] * 3, answered("slow", speedup=0.1, referee_s=0.5), answered("bad", "incorrect", 9.0))
    figures = figures_of("default", Pass(answers, 10.0, 0.5, 20.0, 1.0))
    assert figures["default_per_minute"] == 30
    assert figures["default_p50_s"] == 1
    assert figures["default_referee_s_each"] == pytest.approx(0.18)
    assert figures["default_referee_busy_share"] == pytest.approx(0.09)
    assert figures["default_slow_referee_s_each"] == pytest.approx(0.5)
    assert figures["default_slow_share"] == pytest.approx(0.2)
    assert figures["default_cpu_s_each"] == 4
    assert figures["default_gpu_busy_share"] == 0.5
    assert figures["default_wrong"] == 0


def test_waiting_for_the_other_referees_of_a_gpu_is_no_work():
    one = answered(referee_s=0.2)
    waited = replace(one, phases_s={**one.phases_s, "referee.turn": 5.0})
    assert waited.referee_s == one.referee_s == pytest.approx(0.2)


def test_a_verdict_costs_what_the_rates_say():
    # 36 s of a GPU at 3 USD an hour are 3 cents, 90 s of a core at 4 cents an hour a tenth of a cent.
    cost = cost_of("default", 90.0, 36.0, {"gpu": 3.0, "core": 0.04})
    assert cost == {"default_gpu_s_each": 36.0, "default_usd_a_thousand": pytest.approx(31.0)}


def test_what_a_profile_says():
    job = "evaluator/pipeline/gpu/server.py:serve:70;evaluator/pipeline/gpu/server.py:_attend:86"
    stacks = {
        "evaluator/pipeline/gpu/server.py:serve:66": 50,
        f"{job};evaluator/backends/gpu/runner/channel.py:receive:60": 10,
        f"{job};evaluator/stages/verify/verification.py:verify:69;/site/torch/x.py:sync:1": 30,
        f"{job};evaluator/stages/time/measurement.py:measure:130": 10,
    }
    found = profile_of(stacks)
    assert found["busy_share"] == pytest.approx(0.4)
    assert found["phases"] == {"verify": 0.75, "time": 0.25}
    assert found["leaves"]["evaluator/stages/verify/verification.py:verify > x.py:sync:1"] == 0.75
    assert profile_of({}) == {}


@pytest.fixture(scope="module")
def service():
    with served(1) as running:
        yield running


def test_clients_ask_until_all_is_answered(service):
    quick = Settings(verification="quick")
    kernels = [kernel for kernel in islice(fleet(), 40) if kernel.problem == "relu"][:2]
    found = ask(service.url, kernels, 100, backend="sim", settings=quick, clients=2)
    assert {one.kernel for one in found.answers} == set(kernels)
    assert not any(one.wrong for one in found.answers)
    assert found.seconds < 100
    assert found.cpu_s > 0


def test_what_is_not_done_in_time_does_not_count(service):
    began_s = time.monotonic()
    found = ask(service.url, fleet(7), 0.5, backend="sim", settings=Settings(), clients=3)
    assert 0.5 <= found.seconds < 1.5
    assert time.monotonic() - began_s < 20
    assert len(found.answers) < 3
