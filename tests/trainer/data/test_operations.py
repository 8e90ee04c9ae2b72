"""Operations beyond the built-in problems: tiers and sides, and their kernels at a real service."""

from math import prod

import pytest

from common.client import Client
from common.contract import Status
from evaluator.foreign.torch_text import kernelbench_text
from trainer.conversation.conversation import AgentName
from trainer.conversation.episode import EpisodeSettings
from trainer.conversation.extraction import extract, wrapped
from trainer.data import corpus
from trainer.data.operations import (
    FAMILIES,
    LARGE_WORK,
    OPERATIONS,
    Difficulty,
    chosen_operations,
    difficulty_of,
    family_is_held_out,
    stated,
)
from trainer.data.tasks import held_out_tasks, training_tasks
from trainer.errors import ConfigurationError

SMALL = {"x": (64, 32)}


def test_there_are_many_families_each_with_a_ladder_and_shapes_of_one_pattern():
    assert len(FAMILIES) >= 50
    assert {family.element for family in FAMILIES.values()} == {"float32", "float16"}
    for family in FAMILIES.values():
        assert len(family.styles) >= 3, family.name
        assert len(family.shapes) >= 3, family.name
        assert {style.problem for style in family.styles} == {family.name}
        patterns = set()
        for shapes in family.shapes:
            extents = list(dict.fromkeys(extent for shape in shapes.values() for extent in shape))
            patterns.add(tuple((name, tuple(map(extents.index, shape))) for name, shape in shapes.items()))
        assert len(patterns) == 1, f"{family.name}: one text must serve all shapes"


@pytest.mark.parametrize("name", FAMILIES)
def test_all_kernels_of_a_family_are_of_the_form_that_is_asked_for_and_differ(name):
    sources = set()
    for style in FAMILIES[name].styles:
        for flaw in (None, *corpus.flaws(style)):
            one = corpus.render_prompt(style, flaw)
            found = extract(wrapped(one.source))
            assert found.source == one.source
            assert found.plan is not None
            sources.add(one.source)
            assert flaw is None or one.status is not Status.PASSED
    assert len(sources) == sum(1 + len(corpus.flaws(style)) for style in FAMILIES[name].styles)


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_an_operation_is_a_problem_that_the_evaluator_reads_with_sizes_of_the_same_names(operation):
    import torch
    import torch.nn.functional

    text = operation.reference.text
    if operation.reference.kind == "torch":
        text = kernelbench_text(text, operation.reference.shapes)
    module: dict[str, object] = {}
    exec(text, module)  # our own expressions
    assert {name: module[name] for name in operation.sizes} == operation.sizes
    inputs = module["get_inputs"]()
    assert [tuple(one.shape) for one in inputs] == list(operation.shapes.values())
    answer = module["Model"]()(*inputs)
    face = operation.face
    assert tuple(answer.shape) == tuple(operation.sizes[extent] for extent in face.outputs[0].shape)
    assert str(answer.dtype) == f"torch.{face.outputs[0].dtype.value}"
    assert torch.isfinite(answer).all()


@pytest.mark.parametrize(
    ("expression", "shapes", "difficulty"),
    [
        ("torch.relu(x)", SMALL, Difficulty.EASY),
        ("x * torch.exp(x) + 1", SMALL, Difficulty.EASY),
        ("torch.sum(x, 1)", SMALL, Difficulty.MEDIUM),
        ("torch.transpose(x, 0, 1)", SMALL, Difficulty.MEDIUM),
        ("torch.flip(torch.cumsum(torch.flip(x, (1,)), 1), (1,))", SMALL, Difficulty.MEDIUM),
        ("torch.amax(x, 1) - torch.amin(x, 1)", SMALL, Difficulty.HARD),
        ("F.softmax(x, 1)", SMALL, Difficulty.HARD),
        ("a @ b", {"a": (8, 4), "b": (4, 8)}, Difficulty.HARD),
        ("torch.relu(x)", {"x": (LARGE_WORK,)}, Difficulty.MEDIUM),
        ("torch.relu(x)", {"x": (LARGE_WORK - 1,)}, Difficulty.EASY),
        ("torch.sum(x, 1)", {"x": (2, LARGE_WORK)}, Difficulty.HARD),
        ("torch.mm(a, b)", {"a": (2048, 2048), "b": (2048, 2048)}, Difficulty.HARD),
    ],
)
def test_the_tier_follows_from_operators_and_sizes(expression, shapes, difficulty):
    assert difficulty_of(expression, shapes) is difficulty


def test_what_is_no_expression_has_no_tier():
    with pytest.raises(ValueError, match="is no expression"):
        difficulty_of("torch.sum(", SMALL)


def test_families_and_shapes_are_held_out_by_their_names_alone():
    held_out = {name for name in FAMILIES if family_is_held_out(name)}
    assert 0.08 * len(FAMILIES) < len(held_out) < 0.35 * len(FAMILIES)
    for name in FAMILIES:
        assert family_is_held_out(name) is family_is_held_out(name.removesuffix("_half"))
    for family in FAMILIES.values():
        mine = [one for one in OPERATIONS.values() if one.family is family]
        assert [one.shape_is_held_out for one in mine] == [False] * (len(mine) - 1) + [True]
    # Of every tier something is learned and something is only asked.
    for tier in Difficulty:
        sides = {one.family_is_held_out for one in OPERATIONS.values() if one.face.tier == tier}
        assert sides == {True, False}


def test_tasks_of_operations_carry_what_states_their_problem_and_others_do_not(faces):
    operations = chosen_operations(["row_norm"])
    assert [prod(one.shapes["x"]) for one in operations] == [6000, 150_500, 8385]
    asked = [*(one.face for one in operations), next(face for face in faces if face.id == "relu")]
    tasks = stated((*training_tasks(asked, 3), *held_out_tasks(asked, 4)))
    for task in tasks:
        if task.problem == "relu":
            assert task.reference is None
        else:
            assert task.reference.text == "torch.sqrt(torch.sum(torch.square(x), 1))"
            sent = EpisodeSettings().submission(
                task.problem, "x", EpisodeSettings().reward_of(AgentName.GENERATOR), task.reference
            )
            assert (sent.problem, sent.settings.other_sizes) == (task.reference.problem_id, "required")
    assert {task.problem for task in tasks} == {"relu", *(one.name for one in operations)}
    assert len(chosen_operations(["all"])) == len(OPERATIONS)
    with pytest.raises(ConfigurationError, match="no family of operations 'row_nrom'"):
        chosen_operations(["row_nrom"])


@pytest.mark.parametrize("name", ["silu_half", "row_logsumexp"])
def test_kernels_of_operations_end_as_they_say_at_a_real_service(service, name):
    operation = chosen_operations([name])[0]
    rewards = EpisodeSettings().reward_of(AgentName.GENERATOR)
    styles = operation.family.styles
    examples = [corpus.render_prompt(styles[-1]), corpus.render_prompt(styles[0], styles[0].flaws[-1])]
    with Client(service.url) as client:
        verdicts = client.evaluate_many(
            [EpisodeSettings().submission(name, one.source, rewards, operation.reference) for one in examples]
        )
        assert [one.status for one in verdicts] == [one.status for one in examples]


def test_a_text_that_does_not_say_its_shape_is_on_one_side_for_all_shapes_of_its_family():
    faces = [one.face for one in OPERATIONS.values() if one.family.name in ("add_relu", "silu", "row_mean")]
    learned = training_tasks(faces, 60, wording="brief")
    asked = held_out_tasks(faces, 15 * len(faces), wording="brief")
    assert len({task.text for task in learned}) < len(learned), "some texts name no shape"
    assert {task.text for task in learned}.isdisjoint(task.text for task in asked)
