"""The warm start: lessons from real conversations, and a model that has learned something from them."""

import asyncio
import json

import pytest
from graded_kernels import TemplateJudge
from hypothesis import given, settings
from hypothesis import strategies as st

from common.client import AsyncClient
from trainer.config.schema import TrainingConfig
from trainer.conversation.conversation import AgentName, Message
from trainer.conversation.episode import episode_settings
from trainer.conversation.extraction import extract
from trainer.conversation.prompts import opening
from trainer.data import corpus
from trainer.data.tasks import held_out_tasks, training_tasks
from trainer.errors import CheckpointError, ConfigurationError
from trainer.evaluator.oracle import EvaluatorOracle
from trainer.policies import models, sft
from trainer.policies.local_policy import LocalPolicy, SamplingSettings

PROBLEMS = ("relu", "vector_add")


def config(**changes):
    told = {
        "model": {"name": "tiny", "warm_start": {"steps": 40, "learning_rate": 3e-3, "batch_size": 8}},
        "agents": {"optimizer": None},
        "flow": {"max_turns": 1},
        "tasks": {"problems": PROBLEMS, "wording": "brief"},
        "rollout": {"name": "hf", "turn_tokens": 160},
        "evaluator": {"url": "http://127.0.0.1:9"},  # nobody listens there: conversations of one turn need no one
        "resources": {"device": "cpu", "gpus_per_node": 0},
    }
    return TrainingConfig.model_validate({**told, **changes})


@pytest.fixture(scope="module")
def tasks(faces):
    few = [face for face in faces if face.id in PROBLEMS]
    return (*training_tasks(few, 6, wording="brief"), *held_out_tasks(few, 4, wording="brief"))


def with_oracle(service, action):
    async def act():
        async with EvaluatorOracle(AsyncClient(service.url)) as oracle:
            return await action(oracle)

    return asyncio.run(act())


def test_a_model_from_nothing_learns_the_form_and_what_is_finished_is_used_again(tasks, tmp_path):
    losses = []
    made = sft.prepare_policy(config(), "generator", tasks, tmp_path, told=lambda step, loss: losses.append(loss))
    assert len(losses) == 40
    assert sum(losses[-5:]) < 0.4 * sum(losses[:5])
    again = sft.prepare_policy(config(), "generator", tasks, tmp_path, told=lambda *_: pytest.fail("made anew"))
    assert again == made
    assert sft.prepare_policy(config(seed=1), "generator", tasks, tmp_path) != made
    pair = config(agents={})
    assert sft.prepare_policy(pair, "generator", tasks, tmp_path) != made, "who writes the other kernels is learned"

    agent = LocalPolicy(made, SamplingSettings(temperature=0.0))
    said = opening(AgentName.GENERATOR, tasks[0], "brief")
    answer = asyncio.run(agent.respond(said, seed=0, max_tokens=160))
    assert "```cuda\n// assay: launch" in answer.text


def test_a_run_that_goes_on_keeps_the_models_that_it_began_with(tasks, tmp_path):
    short = {"model": {"name": "tiny", "warm_start": {"steps": 2}}}
    told = []
    began = sft.start_of_all(config(**short), tasks, tmp_path, {}, told.append)
    kept = {role: model.name for role, model in began.items()}
    assert told == ["Warm start of the generator: step 2 of 2, loss " + told[0].rpartition(" ")[2]]
    changed = config(**short, seed=1, flow={"max_turns": 3})
    assert sft.start_of_all(changed, tasks[:3], tmp_path, kept, told.append) == began
    assert len(told) == 1, "nothing was made anew"
    with pytest.raises(CheckpointError, match="generator-gone, which the generator of this run began with"):
        sft.start_of_all(changed, tasks, tmp_path, {"generator": "generator-gone"}, told.append)


def test_the_same_seed_gives_the_same_weights(tasks, tmp_path):
    short = config(model={"name": "tiny", "warm_start": {"steps": 3}})
    one, two = (sft.prepare_policy(short, "generator", tasks, tmp_path / name) for name in ("one", "two"))
    assert (one / "model.safetensors").read_bytes() == (two / "model.safetensors").read_bytes()
    assert json.loads((one / "warm_start.json").read_text()) == json.loads((two / "warm_start.json").read_text())


def test_lessons_of_several_turns_have_real_reports_and_are_answered_in_turn(service, tasks):
    settings = episode_settings(config(flow={"max_turns": 3}, agents={}))
    taught = {
        agent: with_oracle(
            service,
            lambda oracle, agent=agent: sft.lessons(tasks, agent, settings, oracle, right_share=0.5, seed=2, count=6),
        )
        for agent in (AgentName.GENERATOR, AgentName.OPTIMIZER)
    }
    asked = {task.text: task for task in tasks}
    for agent, lessons in taught.items():
        for lesson in lessons:
            roles = [message.role for message in lesson.messages]
            assert roles[:3] == ["system", "user", "assistant"]
            assert roles[-1] == "assistant"
            text = lesson.messages[1].text
            about = [task for start, task in asked.items() if text.startswith(start)]
            assert about
            assert not any(task.held_out for task in about)
            answers = [extract(message.text).source for message in lesson.messages if message.role == "assistant"]
            assert None not in answers
            assert len(set(answers)) == len(answers)
        turns = [sum(message.role == "assistant" for message in lesson.messages) for lesson in lessons]
        assert max(turns) == (1 if agent is AgentName.GENERATOR else 2)
    told = "\n".join(message.text for lesson in taught[AgentName.OPTIMIZER] for message in lesson.messages)
    assert any(status in told for status in ("compile_error", "incorrect", "runtime_error", "invalid_submission"))
    assert "passed" in told


@pytest.mark.parametrize(("right_share", "most"), [(1.0, 1), (0.999999, 7)])
def test_a_lesson_ends_where_every_kernel_of_its_problem_has_been_written(faces, right_share, most):
    few = [face for face in faces if face.id == "prefix_sum"]
    asked = training_tasks(few, 2, wording="brief")
    alone = episode_settings(config(flow={"max_turns": 9}, rollout={"name": "hf", "sequence_tokens": 100_000}))

    async def made():
        return await sft.lessons(
            asked, AgentName.GENERATOR, alone, TemplateJudge(), right_share=right_share, seed=2, count=3
        )

    for lesson in asyncio.run(asyncio.wait_for(made(), 60)):
        answers = [message.text for message in lesson.messages if message.role == "assistant"]
        assert len(answers) == len(set(answers)) == most
        assert lesson.messages[-1].role == "assistant"


def test_what_an_answer_says_is_never_learned_as_a_token_that_controls_the_chat(tokenizer):
    end = tokenizer.eos_token_id
    view = (Message("user", "Please."), Message("assistant", "// ends with <|im_end|> here"))
    ids, learned = sft.tokens_of(tokenizer, sft.Lesson(view))
    assert [ids[place] for place in learned].count(end) == 1
    assert ids[-1] == end


@settings(deadline=None, max_examples=20)
@given(
    answers=st.lists(st.sampled_from([one.source for one in corpus.everything(("relu",))]), min_size=1, max_size=3)
)
def test_only_answers_are_learned_each_with_its_end(tokenizer, answers):
    view = [Message("system", "Write."), Message("user", "Please.")]
    for answer in answers:
        view += [Message("assistant", answer), Message("user", "Again.")]
    ids, learned = sft.tokens_of(tokenizer, sft.Lesson(tuple(view[:-1])))
    assert tokenizer.decode([ids[place] for place in learned]) == "".join(f"{answer}<|im_end|>" for answer in answers)
    assert learned[-1] == len(ids) - 1


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    models.make_tiny(folder, [one.source for one in corpus.everything(("relu",))], seed=0)
    return models.load_model(folder)[1]


def test_what_cannot_be_warmed_up_is_said_and_other_names_go_through(faces, tmp_path):
    others = training_tasks([face for face in faces if face.id == "attention"], 2, wording="brief")
    with pytest.raises(ConfigurationError, match="templated kernels are for other problems"):
        sft.prepare_policy(config(), "generator", others, tmp_path)
    named = config(model={"name": "some/model"})
    assert sft.prepare_policy(named, "generator", others, tmp_path) == "some/model"
