"""What held-out prompts say of an agent, with scripted agents whose answers are known."""

import asyncio

import pytest
from graded_kernels import TemplateJudge, graded_templates
from scripted import Script

from trainer.conversation.conversation import Response
from trainer.conversation.episode import EpisodeSettings
from trainer.conversation.extraction import wrapped
from trainer.data import corpus
from trainer.data.tasks import held_out_tasks
from trainer.errors import ContextFullError, OracleError
from trainer.evaluation.statistics import wilson
from trainer.tuning import examples, measuring

SETTINGS = EpisodeSettings(turn_tokens=10_000)
STYLES = corpus.styles("relu")
SOURCES = [corpus.render_prompt(style).source for style in STYLES]


@pytest.fixture(scope="module")
def tasks(faces):
    return held_out_tasks([face for face in faces if face.id in ("relu", "conv2d")], 8)


def measured(action):
    return asyncio.run(action)


def test_a_generator_that_knows_one_kernel_is_right_where_it_is(tasks):
    judge = TemplateJudge()
    found = measured(measuring.measure_generator(Script([wrapped(SOURCES[1])]), tasks, judge, SETTINGS, seed=3))
    assert (found.prompts, found.left_out, len(judge.asked)) == (8, 0, 8)
    # The kernel is for relu, and half of the tasks are.
    assert (found.pass_rate, found.compile_rate, found.speedup) == (0.5, 0.5, 2.0)
    assert found.pass_interval == found.compile_interval == wilson(4, 8)
    # Four equal values bound no median with 95 %.
    assert found.speedup_interval is None
    assert found.improved_rate is None


def test_an_optimizer_counts_where_it_improves_on_the_kernel_that_it_is_given(tasks):
    data = graded_templates("relu")

    def rate(source):
        action = measuring.measure_optimizer(
            Script([wrapped(source)]), tasks, data, TemplateJudge(), SETTINGS, seed=3, factor=1.1
        )
        return measured(action)

    best, worst = rate(SOURCES[-1]), rate("__global__ void relu() { nothing }")
    # Of conv2d there is no kernel to be improved.
    assert (best.prompts, best.improved_rate, best.pass_rate) == (4, 1.0, 1.0)
    assert (worst.prompts, worst.improved_rate, worst.pass_rate) == (4, 0.0, 0.0)
    assert (best.improved_interval, worst.improved_interval) == (wilson(4, 4), wilson(0, 4))


def test_an_agent_alone_is_asked_for_a_first_kernel_and_to_improve_one_that_stands_as_its_own(tasks):
    class Taught:
        """Begins well, and then says what it was told to."""

        def __init__(self, later):
            self.later, self.given = later, []

        async def respond(self, messages, *, seed, max_tokens):
            if [said.role for said in messages] == ["system", "user"]:
                return Response(wrapped(SOURCES[1]))
            _, asked, own, report = messages
            assert (own.role, report.role) == ("assistant", "user")
            self.given.append((asked.text, own.text))
            return Response(self.later)

    data, rates = graded_templates("relu"), {}
    for later in (wrapped(SOURCES[-1]), "I cannot."):
        policy = Taught(later)
        action = measuring.measure_single_agent(
            policy, tasks, data, TemplateJudge(), SETTINGS, seed=3, factor=1.1, concurrency=4
        )
        found = measured(action)
        assert (found.prompts, found.pass_rate, found.compile_rate) == (8, 0.5, 0.5)
        rates[later] = (found.improved_rate, found.improved_interval)
        # Of conv2d there is no kernel to be improved.
        assert len(policy.given) == 4
        assert {wrapped(one.source) for one in data.kernels} >= {own for _, own in policy.given}
    assert list(rates.values()) == [(1.0, wilson(4, 4)), (0.0, wilson(0, 4))]


def test_a_tester_counts_where_it_names_what_is_wrong(tasks):
    data = graded_templates("relu", held_out=["relu"])
    asked = examples.tester_prompts(data, tasks, SETTINGS, seed=3, factor=1.1)
    assert len(asked) == 4, "of conv2d there is no kernel"
    issue = asked[0][1].issue
    among = sum(diagnosis.issue == issue for _, diagnosis in asked)
    assert among < 4
    found = measured(measuring.measure_tester(Script([f"{issue}.\nLine 1."]), asked, SETTINGS, seed=3))
    assert (found.prompts, found.named_rate) == (4, among / 4)
    assert found.named_interval == wilson(among, 4)
    assert (found.compile_rate, found.pass_rate, found.improved_rate) == (None, None, None)
    assert measured(measuring.measure_tester(Script([""]), (), SETTINGS, seed=3)).named_rate is None

    class Full:
        async def respond(self, messages, *, seed, max_tokens):
            raise ContextFullError("full", "a longer context")

    assert measured(measuring.measure_tester(Full(), asked, SETTINGS, seed=3)).named_rate == 0


def test_a_fault_of_the_evaluator_is_no_wrong_answer(tasks):
    judge = TemplateJudge(otherwise={SOURCES[0]: OracleError("down")})
    found = measured(measuring.measure_generator(Script([wrapped(SOURCES[0])]), tasks, judge, SETTINGS, seed=3))
    assert (found.prompts, found.left_out, found.pass_rate, found.pass_interval) == (8, 8, None, None)
