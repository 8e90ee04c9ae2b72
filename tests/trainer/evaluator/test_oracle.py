"""The oracle: overlap, bounds, faults that are counted and never a reward, and an end where there are too many."""

import asyncio
import contextlib
import time
from types import SimpleNamespace

import pytest
import sample_verdicts as samples
from api_service import facts
from serving import Serving
from small_service import Road, SmallService

from common.client import AsyncClient, NoVerdictError
from common.contract import Settings, Status, Submission
from evaluator.service.storage.storage import open_storage
from trainer.config.schema import EvaluatorSection as EvaluatorSection
from trainer.conversation.rewards import RewardSettings, immediate_reward
from trainer.errors import ConfigurationError, OracleError, OracleLostError
from trainer.evaluator.oracle import EvaluatorOracle, OracleSettings, oracle_settings, slim

NAIVE = "__global__ void k(const float* x, float* y, int n) { int i = threadIdx.x; if (i < n) y[i] = x[i]; }"
ALL = "blockIdx.x * blockDim.x + threadIdx.x;"


def submission(number=0):
    return Submission(problem="relu", source=f"{NAIVE} // {number}", settings=Settings(verification="quick"))


def asked(url, count, settings=None, *, patience_s=20, key=None, first=0):
    """What comes of `count` evaluations at once, and the oracle."""

    async def all_of_them():
        async with EvaluatorOracle(AsyncClient(url, key, patience_s=patience_s), settings) as oracle:
            outcomes = await asyncio.gather(
                *(oracle.evaluate(submission(first + number)) for number in range(count)), return_exceptions=True
            )
            return outcomes, oracle

    return asyncio.run(all_of_them())


@contextlib.contextmanager
def served(**fields):
    small = SmallService(**fields)
    with small.served() as port:
        yield small, f"http://127.0.0.1:{port}"


def test_evaluations_overlap_and_are_bounded():
    with served(grading_s=0.3) as (small, url):
        outcomes, oracle = asked(url, 24, OracleSettings(concurrency=8))
    assert [one.verdict.message for one in outcomes] == [f"verdict of {submission(i).source}" for i in range(24)]
    assert len({one.evaluation_id for one in outcomes}) == 24
    assert small.max_under_way == 8
    counts = oracle.counts
    assert (counts.asked, counts.judged, counts.unsupported, counts.faults) == (24, 24, 24, 0)
    assert counts.evaluator_s > 24 * 0.29
    assert counts.queued_s > 0.3


def test_a_fault_of_the_evaluator_is_asked_again_and_then_counted():
    broken = submission(1).source
    with served(fault_sources=frozenset({broken})) as (small, url):
        outcomes, oracle = asked(url, 3)
    assert isinstance(outcomes[1], OracleError)
    assert not isinstance(outcomes[1], OracleLostError)
    assert "evaluator failed" in str(outcomes[1])
    assert [one.verdict.status for one in (outcomes[0], outcomes[2])] == [Status.UNSUPPORTED] * 2
    assert (oracle.counts.faults, oracle.counts.judged, oracle.counts.asked) == (1, 2, 3)
    assert small.queries.count("fresh=true") == 1


def test_above_the_share_the_run_is_told_to_stop_and_why():
    broken = frozenset(submission(number).source for number in range(18, 40))
    with served(fault_sources=broken) as (_, url):
        outcomes, oracle = asked(url, 40, OracleSettings(concurrency=1, fault_share=0.1, retries=0))
    kinds = [type(one).__name__ for one in outcomes]
    assert kinds == ["Judged"] * 18 + ["OracleError"] * 2 + ["OracleLostError"] * 20
    assert "3 of the newest 21 evaluations failed" in str(outcomes[20])
    assert "10%" in str(outcomes[20])
    assert "checkpoint" in outcomes[20].remedy
    assert oracle.counts.asked == 21, "nothing is asked any more"


def test_an_evaluator_that_dies_late_is_noticed_as_soon_as_one_that_dies_early():
    class Dies:
        """An evaluator with 20,000 good verdicts, and none after them."""

        verdicts = 0

        async def evaluation(self, submission, *, fresh):
            if self.verdicts == 20_000:
                raise NoVerdictError("no useful answer")
            self.verdicts += 1
            return SimpleNamespace(id=f"ev_{self.verdicts}", verdict=verdict)

    async def faults():
        oracle, one, seen = EvaluatorOracle(Dies(), OracleSettings(fault_share=0.1)), submission(), 0
        while True:
            try:
                await oracle.evaluate(one)
            except OracleLostError as lost:
                return seen + 1, str(lost)
            except OracleError:
                seen += 1

    verdict = samples.passed()
    count, said = asyncio.run(faults())
    assert count == 21
    assert "21 of the newest 200 evaluations" in said


class Fleet:
    """A client of a service whose workers with a GPU come and go: `places` has where each of its evaluations that may
    run anywhere runs.
    """

    def __init__(self, places):
        self.places, self.backends = list(places), []

    async def evaluation(self, submission, *, fresh):
        self.backends.append(submission.backend)
        place = self.places.pop(0) if submission.backend == "auto" else submission.backend
        await asyncio.sleep(0)
        wrong = samples.incorrect().model_copy(update={"backend": place})
        right = samples.passed_on_gpu() if place == "gpu" else samples.passed()
        return SimpleNamespace(id="ev_1", verdict=wrong if "wrong" in submission.source else right)

    async def close(self):
        """Nothing is open."""


def judged(fleet, *sources, problem="relu", backend="auto", at_once=False, ran_on=None):
    async def all_of_them():
        async with EvaluatorOracle(fleet, OracleSettings(retries=0), ran_on) as oracle:
            asking = [
                oracle.evaluate(Submission(problem=problem, source=f"{NAIVE} // {one}", backend=backend))
                for one in sources
            ]
            found = await asyncio.gather(*asking) if at_once else [await one for one in asking]
            return [one.verdict.backend for one in found], oracle.counts, oracle.ran_on

    return asyncio.run(all_of_them())


@pytest.mark.parametrize(("first", "other"), [("gpu", "sim"), ("sim", "gpu")])
def test_a_problem_stays_where_its_first_right_kernel_ran_when_a_gpu_comes_or_goes(first, other):
    fleet = Fleet([other, first, other, first, other])
    backends, counts, _ = judged(fleet, "wrong", "right", "right", "right", "wrong")
    assert backends == [other, first, first, first, other], "a wrong kernel earns the same anywhere"
    assert fleet.backends == ["auto", "auto", "auto", first, "auto", "auto"]
    assert (counts.judged, counts.faults) == (5, 0)
    fleet = Fleet([first, other, first])
    assert judged(fleet, *["right"] * 3, at_once=True)[0] == [first] * 3, "those that were under way too"
    fleet = Fleet([])
    assert judged(fleet, "right", backend=first)[0] == [first]
    assert fleet.backends == [first]


@pytest.mark.parametrize(("first", "other"), [("gpu", "sim"), ("sim", "gpu")])
def test_a_problem_stays_there_for_the_next_oracle_too_until_a_backend_is_named(first, other):
    _, _, ran_on = judged(Fleet([other, first]), "wrong", "right")
    assert ran_on == {"relu": first}
    fleet = Fleet([other, other])
    backends, _, after = judged(fleet, "right", "wrong", ran_on=ran_on)
    assert (backends, fleet.backends) == ([first, other], ["auto", first, "auto"])
    assert after == ran_on
    assert judged(Fleet([other]), "right", problem="softmax", ran_on=ran_on)[2] == {"relu": first, "softmax": other}
    fleet = Fleet([])
    assert judged(fleet, "wrong", "right", backend=other, ran_on=ran_on)[2] == {"relu": other}
    assert fleet.backends == [other] * 2, "who names one gets it"


def test_a_wrong_key_ends_it_at_once():
    with served(key="secret") as (_, url):
        outcomes, oracle = asked(url, 2, OracleSettings(concurrency=1), key="wrong")
    assert all(isinstance(one, OracleLostError) for one in outcomes)
    assert "401" in str(outcomes[0])
    assert "ASSAY_KEY" in outcomes[0].remedy or "Send one" in outcomes[0].remedy
    assert oracle.counts.asked == 1


def test_over_quota_and_over_a_bad_road_all_come_back():
    with served(places=2, grading_s=0.02, forgets=1) as (small, url):
        port = int(url.rsplit(":", 1)[1])
        with Road(port, ["429", "503", "at once", "after the request", "in the answer", "web page"]).open() as road:
            outcomes, oracle = asked(road, 8)
    assert [one.verdict.message for one in outcomes] == [f"verdict of {submission(i).source}" for i in range(8)]
    assert small.max_under_way <= 2
    assert oracle.counts.faults == 0


def test_who_does_not_come_back_is_a_fault_with_the_evaluations_id():
    with served(grading_s=60) as (small, url):

        async def cut_off():
            async with EvaluatorOracle(AsyncClient(url, wait_s=0.2, patience_s=1.0)) as oracle:
                asking = asyncio.create_task(oracle.evaluate(submission()))
                while not small.ids:
                    await asyncio.sleep(0.02)
                await asyncio.sleep(0.3)
                small.down = True
                with pytest.raises(OracleError) as caught:
                    await asking
                return caught.value

        fault = asyncio.run(cut_off())
    assert fault.evaluation_id in small.submissions
    assert "no useful answer" in str(fault)


def test_an_evaluator_that_becomes_ten_times_slower_costs_time_and_no_verdict():
    with served(grading_s=0.06) as (small, url):

        async def judged():
            # An answer that it is not done yet is an answer, however often it comes.
            async with EvaluatorOracle(AsyncClient(url, wait_s=0.1, patience_s=0.5)) as oracle:
                found = [await oracle.evaluate(submission(number)) for number in range(3)]
                small.grading_s *= 10
                began_s = time.monotonic()
                found += await asyncio.gather(*(oracle.evaluate(submission(number)) for number in range(3, 6)))
                return found, time.monotonic() - began_s, oracle.counts

        found, took_s, counts = asyncio.run(judged())
    assert [one.verdict.message for one in found] == [f"verdict of {submission(i).source}" for i in range(6)]
    assert took_s > 0.5
    assert (counts.asked, counts.judged, counts.faults, counts.retried) == (6, 6, 0, 0)


def test_a_queue_that_nobody_takes_work_from_ends_the_run_and_says_what_to_start(tmp_path, toolbox):
    (toolbox.settings.data_dir / "cache").mkdir(parents=True, exist_ok=True)
    serving = Serving(tmp_path)
    serving.start(workers=0)
    try:
        settings = OracleSettings(concurrency=3, patience_s=1.0)
        outcomes, oracle = asked(serving.url, 5, settings, patience_s=60)
        assert serving.rows() == ["done"] * 3, "what was sent is taken back, and nothing is sent any more"
    finally:
        serving.stop()
    assert [type(one) for one in outcomes] == [OracleLostError] * 5
    assert "Nobody takes work from the evaluator's queue: 3 evaluations have waited 1 s" in str(outcomes[0])
    assert str(outcomes[0]).endswith("No worker is alive.")
    assert "`assay worker`" in outcomes[0].remedy
    assert (oracle.counts.asked, oracle.counts.judged) == (3, 0)


def test_a_gpu_that_is_gone_ends_a_run_that_asks_for_it_though_other_workers_judge(tmp_path, toolbox):
    (toolbox.settings.data_dir / "cache").mkdir(parents=True, exist_ok=True)
    serving = Serving(tmp_path)
    serving.start(workers=1)
    storage = open_storage(f"sqlite:///{serving.data / 'assay.db'}")
    storage.workers.register(facts(id="on-a-gpu", queues=("gpu",), backend="gpu"))
    judged_here = []

    async def all_of_them():
        client = AsyncClient(serving.url, wait_s=0.5, patience_s=2.0)  # by that alone it would be a fault
        async with EvaluatorOracle(client, OracleSettings(patience_s=4.0), {"relu": "gpu"}) as oracle:

            def asked(source, backend):
                quick = Settings(verification="quick")
                sent = Submission(problem="relu", source=source, backend=backend, settings=quick)
                return asyncio.create_task(oracle.evaluate(sent))

            await asked(NAIVE, "sim")
            asking = [asked(f"{NAIVE} // {number}", "gpu") for number in range(2)]
            while [one.queue for one in storage.evaluations.list(None).items][:2] != ["gpu", "gpu"]:
                assert not any(one.done() for one in asking)
                await asyncio.sleep(0.1)
            storage.workers.gone("on-a-gpu")
            await asyncio.sleep(1.1)  # for so long the service counts on whom it knew
            await asked(NAIVE, "sim")
            # It is right on the simulator, and then asked about for the GPU, which is refused.
            asking.append(asked(NAIVE.replace("x[i]", "fmaxf(x[i], 0.0f)").replace("threadIdx.x;", ALL), "auto"))
            with contextlib.suppress(OracleLostError):
                for _ in range(100):
                    judged_here.append((await asked(NAIVE, "sim")).verdict.status)
                    await asyncio.sleep(0.2)
                pytest.fail("the run goes on")
            return await asyncio.gather(*asking, return_exceptions=True)

    try:
        outcomes = asyncio.run(all_of_them())
        assert "queued" not in serving.rows(), "what waits is taken back"
    finally:
        storage.database.close()
        serving.stop()
    assert judged_here[:5] == [Status.INCORRECT] * 5, "which are no sign of who has a GPU"
    assert [type(one) for one in outcomes] == [OracleLostError] * 3
    said = str(outcomes[0])
    assert "3 evaluations that ask for the backend gpu have waited 4 s" in said
    assert said.endswith("it says: No worker with a GPU is alive.")
    assert outcomes[0].remedy.startswith("It takes a worker with a GPU: ")
    assert "evaluator.backend=sim" in outcomes[0].remedy


def test_a_run_that_asks_for_a_gpu_waits_at_its_start_until_one_is_there(monkeypatch):
    monkeypatch.setattr("trainer.evaluator.oracle._LOOK_AGAIN_S", 0.05)
    told = []

    async def wait(url, backend):
        settings = OracleSettings(start_patience_s=0.4, backend=backend)
        async with EvaluatorOracle(AsyncClient(url), settings) as oracle:
            await oracle.wait_until_ready(told.append)

    with served(lacks={"auto": None, "gpu": "No worker with a GPU is alive.", "sim": None}) as (_, url):
        asyncio.run(wait(url, "auto"))
        asyncio.run(wait(url, "sim"))
        assert told == []
        with pytest.raises(OracleLostError, match=r"not ready after .*: No worker with a GPU is alive\.$") as caught:
            asyncio.run(wait(url, "gpu"))
    assert told[0].startswith("Waiting for the evaluator (No worker with a GPU is alive)")
    assert caught.value.remedy.startswith("It takes a worker with a GPU: ")
    assert ", or set evaluator.backend to auto or sim; " in caught.value.remedy
    # A GPU that is out of order: what may run anywhere waits for it too.
    trouble = "No GPU can be used: it fell off the bus."
    with (
        served(unready=trouble, lacks={"auto": trouble, "gpu": trouble, "sim": None}) as (_, url),
        pytest.raises(OracleLostError, match="fell off the bus") as caught,
    ):
        asyncio.run(wait(url, "auto"))
    assert ", or fix what it says, or set evaluator.backend to sim; " in caught.value.remedy
    with served(unready="No worker is alive.") as (_, url), pytest.raises(OracleLostError, match="alive") as caught:
        asyncio.run(wait(url, "auto"))
    assert caught.value.remedy.startswith("Start workers there with `assay worker` or `assay serve`, or fix")
    assert "evaluator." not in caught.value.remedy


def test_a_queue_that_is_only_long_ends_no_run(service):
    async def all_of_them():
        async with EvaluatorOracle(AsyncClient(service.url), OracleSettings(patience_s=0.2)) as oracle:
            await oracle.wait_until_ready(lambda said: None)
            began_s = time.monotonic()
            sent = [Submission(problem="relu", source=f"{NAIVE} // {time.time()} {number}") for number in range(4)]
            await asyncio.gather(*map(oracle.evaluate, sent))
            return oracle.counts, time.monotonic() - began_s

    counts, took_s = asyncio.run(all_of_them())
    assert (counts.judged, counts.faults) == (4, 0)
    assert took_s > 3 * 0.2


@pytest.mark.parametrize(("places", "grading_s", "lacks_s"), [(1, 0.3, 60), (6, 1.7, 0.5)])
def test_a_service_that_judges_or_is_ready_again_ends_no_run(places, grading_s, lacks_s):
    """That it lacks something is no end while verdicts come, nor where it lacked nothing in between."""
    lacks = "No GPU can be used."
    with served(grading_s=grading_s, unready=lacks) as (small, url):

        async def all_of_them():
            async with EvaluatorOracle(AsyncClient(url), OracleSettings(places, patience_s=1.0)) as oracle:
                asking = asyncio.gather(*(oracle.evaluate(submission(number)) for number in range(6)))
                await asyncio.wait({asking}, timeout=lacks_s)
                small.unready = None
                await asyncio.wait({asking}, timeout=0.4)
                small.unready = lacks
                await asking
                return oracle.counts

        counts = asyncio.run(all_of_them())
    assert (counts.judged, counts.faults) == (6, 0)


def test_who_is_cancelled_while_waiting_takes_the_evaluation_back():
    with served(grading_s=60) as (small, url):

        async def cut_off():
            async with EvaluatorOracle(AsyncClient(url, wait_s=0.2)) as oracle:
                asking = asyncio.create_task(oracle.evaluate(submission()))
                while not small.ids:
                    await asyncio.sleep(0.02)
                asking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asking

        asyncio.run(cut_off())
    assert small.dropped == list(small.ids.values())


def test_an_evaluator_that_is_not_there_is_waited_for_and_then_said(monkeypatch):
    monkeypatch.setattr("trainer.evaluator.oracle._LOOK_AGAIN_S", 0.05)
    told = []

    async def wait():
        client = AsyncClient("http://127.0.0.1:9", patience_s=1)
        async with EvaluatorOracle(client, OracleSettings(start_patience_s=0.4)) as oracle:
            await oracle.wait_until_ready(told.append)

    with pytest.raises(OracleLostError, match="not ready after") as caught:
        asyncio.run(wait())
    assert "assay serve" in caught.value.remedy
    assert len(told) == 1
    assert "Waiting for the evaluator" in told[0]


def test_an_evaluator_that_comes_up_late_is_waited_for_and_then_serves(monkeypatch, service, faces):
    monkeypatch.setattr("trainer.evaluator.oracle._LOOK_AGAIN_S", 0.05)
    told = []

    async def begin(url):
        async with EvaluatorOracle(AsyncClient(url, patience_s=60)) as oracle:
            await oracle.wait_until_ready(told.append)
            assert await oracle.problems() == faces
            again = Submission(problem="relu", source=NAIVE, backend="sim")
            first, second = await oracle.evaluate(again), await oracle.evaluate(again)
            assert first == second
            return oracle.counts

    with Road(service.port, ["503", "at once", "502"]).open() as url:
        counts = asyncio.run(begin(url))
    assert "503" in told[0]
    assert (counts.judged, counts.repeats, counts.faults) == (2, 1, 0)


def test_something_else_at_the_address_is_no_evaluator():
    with served() as (_, url):

        async def wait():
            async with EvaluatorOracle(AsyncClient(url)) as oracle:
                await oracle.wait_until_ready(lambda said: None)

        with pytest.raises(ConfigurationError, match="404"):
            asyncio.run(wait())


def test_a_configuration_says_how_it_is_asked():
    section = EvaluatorSection(concurrency=3, fault_share=0.5, patience_s=7, backend="gpu")
    assert oracle_settings(section) == OracleSettings(3, 300.0, 0.5, patience_s=7, backend="gpu")


@pytest.mark.parametrize("wrong", [{"concurrency": 0}, {"fault_share": 1.5}, {"retries": -1}, {"patience_s": 0}])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match="cannot be"):
        OracleSettings(**wrong)


@pytest.mark.parametrize(
    "verdict", [made() for made in samples.ALL], ids=lambda verdict: f"{verdict.status}-{verdict.backend}"
)
def test_a_slim_verdict_earns_the_same(verdict):
    thin = slim(verdict)
    assert type(verdict).model_validate_json(thin.model_dump_json()) == thin
    assert len(thin.model_dump_json()) <= len(verdict.model_dump_json())
    if verdict.status.carries_reward:
        rewards = RewardSettings("components")
        assert immediate_reward(thin, rewards, Settings()) == immediate_reward(verdict, rewards, Settings())
    assert (thin.status, thin.message, thin.hint, thin.reward) == (
        verdict.status,
        verdict.message,
        verdict.hint,
        verdict.reward,
    )


def test_what_is_large_and_said_elsewhere_is_left_out():
    thin = slim(samples.incorrect())
    assert all(not trial.mismatch.heat for trial in thin.correctness.trials if trial.mismatch)
    counted = slim(samples.counted())
    assert all(not launch.lines for launch in counted.profile.evidence.launches)
    assert counted.profile.memory_efficiency == samples.counted().profile.memory_efficiency
