"""Numbers that nobody means: each numeric setting has a lower and an upper bound, and the refusal says it."""

import typing

import pytest
from pydantic import BaseModel

from trainer.config.reading import load_config
from trainer.config.schema import TrainingConfig
from trainer.errors import ConfigurationError


def numbers(kind=TrainingConfig, prefix=""):
    """Every numeric setting, with the bounds that it has."""
    for name, field in kind.model_fields.items():
        kinds = (field.annotation, *typing.get_args(field.annotation))
        for each in kinds:
            if isinstance(each, type) and issubclass(each, BaseModel):
                yield from numbers(each, f"{prefix}{name}.")
        if {int, float} & set(kinds):
            known = [
                value
                for one in field.metadata
                for way in ("ge", "gt", "le", "lt")
                if (value := getattr(one, way, None)) is not None
            ]
            yield f"{prefix}{name}", int if int in kinds else float, known


NUMBERS = list(numbers())


def refusal(override):
    """What is said of one setting."""
    with pytest.raises(ConfigurationError) as caught:
        load_config("quick-test", ["agents.tester={}", override])
    return str(caught.value)


def test_settings_are_found():
    assert len(NUMBERS) > 80
    assert {"algorithm.clip_high", "agents.optimizer.temperature", "sft.lora.alpha"} <= {name for name, *_ in NUMBERS}


@pytest.mark.parametrize(("name", "kind", "known"), NUMBERS, ids=[name for name, *_ in NUMBERS])
def test_every_number_has_both_bounds_and_its_refusal_says_them(name, kind, known):
    assert len(known) == 2
    for absurd in (10**18, -(10**18)) if kind is int else (1e300, -1e300):
        said = refusal(f"{name}={absurd}")
        assert said.startswith(f"{name}={absurd} (command line): {name}: Input should be ")
        words = [str(bound).removesuffix(".0") for bound in known]
        assert any(f" {word};" in said for word in words), said


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("algorithm.clip_high=1e300", "less than or equal to 10000; it is 1e+300"),
        ("algorithm.kl_coefficient=1e30", "less than or equal to 10;"),
        ("rollout.temperature=1e9", "less than or equal to 10;"),
        ("rollout.temperature=1e-300", "greater than or equal to 0.01;"),
        ("rollout.evaluation_temperature=1e-300", "0, for the most probable token, or at least 0.01;"),
        ("agents.tester.temperature=0.001", "0, for the most probable token, or at least 0.01;"),
        ("algorithm.learning_rate=1e-300", "greater than or equal to 1e-12;"),
        ("reward.shaping={compilation: 1e300}", "less than or equal to 1000;"),
        ("algorithm.prompts_per_step=65536", "times candidates 4 are more than the 65536 conversations"),
    ],
)
def test_what_no_arithmetic_survives_is_refused_in_words(override, said):
    assert said in refusal(override)


def test_what_the_literature_uses_is_taken():
    config = load_config(
        "quick-test",
        [
            "algorithm.clip_high=0.28",
            "algorithm.kl_coefficient=0.08",
            "rollout.evaluation_temperature=0",
            "algorithm.candidates=64",
            "algorithm.micro_batch_size=64",
            "algorithm.gradient_clip=1000",
            "rollout.prompt_tokens=131072",
            "rollout.sequence_tokens=262144",
        ],
    )
    assert (config.rollout.evaluation_temperature, config.algorithm.candidates) == (0.0, 64)
