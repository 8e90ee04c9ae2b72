"""Every list, mapping and text of what a caller writes has a bound, and what is beyond it costs one error."""

import time
import types
import typing

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from common.contract import Submission
from common.wire import MaxLength, Request, Wire
from evaluator.service.api.schemas import Batch
from evaluator.validation_messages import in_plain_words

MANY = 200_000
FEW = 8
"""More errors than this mean one for each item: a union tries each of its types, and a message tells three."""


def models(of):
    """The models that `of` is made of, itself among them."""
    found = {of: None}
    for field in of.model_fields.values():
        for kind in kinds(field.annotation):
            if isinstance(kind, type) and issubclass(kind, BaseModel) and kind not in found:
                found |= models(kind)
    return found


def kinds(annotation):
    """What an annotation is made of, outermost first, without the unions and what they are annotated with."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        yield from kinds(typing.get_args(annotation)[0])
    elif origin in (typing.Union, types.UnionType):
        for one in typing.get_args(annotation):
            yield from kinds(one)
    else:
        yield annotation
        for one in typing.get_args(annotation):
            if one is not Ellipsis and origin is not typing.Literal:
                yield from kinds(one)


FIELDS = [(model, name) for model in models(Batch) for name in model.model_fields]
HOSTILE = {
    "numbers": [1] * MANY,
    "objects": [{}] * MANY,
    "lists": [[]] * MANY,
    "texts": ["x"] * MANY,
    "nothings": [None] * MANY,
    "half of them right": [1, "("] * (MANY // 2),
    "mapping": {str(number): 0 for number in range(MANY)},
    "mapping to wrong values": {str(number): [] for number in range(MANY)},
    "mapping of long names": {"n" * 1000 + str(number): None for number in range(1000)},
    "kinds": [{"kind": "launch", **{str(number): 0 for number in range(200)}}] * 1000,
    "text": "x" * (1 << 20),
}


def test_all_that_a_caller_writes_is_a_request():
    assert len(FIELDS) > 40
    assert {model for model in models(Batch) if not issubclass(model, Request)} == set()


def is_bounded(model, name):
    """The core schemas of a field's lists and mappings that have no bound."""
    field = model.model_fields[name]
    whole = typing.get_type_hints(model, include_extras=True)[name]
    return list(unbounded(whole, field.metadata))


def unbounded(annotation, given=()):
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        yield from unbounded(inner[0], annotation.__metadata__)
    elif origin in (typing.Union, types.UnionType):
        for one in inner:
            yield from unbounded(one)
    elif origin in (tuple, list, dict, set, frozenset):
        if not any(isinstance(one, MaxLength) for one in given):
            yield annotation
        for one in inner:
            if one is not Ellipsis:
                yield from unbounded(one)


@pytest.mark.parametrize(("model", "name"), FIELDS, ids=lambda one: getattr(one, "__name__", one))
def test_each_list_and_mapping_of_a_request_says_how_much_it_holds(model, name):
    assert is_bounded(model, name) == []


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize(("model", "name"), FIELDS, ids=lambda one: getattr(one, "__name__", one))
def test_what_is_beyond_a_bound_is_one_error_and_no_time(model, name, hostile):
    began_s = time.process_time()
    with pytest.raises(ValidationError) as refused:
        model.model_validate({name: hostile})
    about = [one for one in refused.value.errors(include_url=False) if one["loc"][0] == name]
    # A source may be as long as the text that is tried here.
    assert len(about) <= FEW
    assert about or (model, name) == (Submission, "source")
    assert time.process_time() - began_s < 0.2


@pytest.mark.parametrize("model", models(Batch), ids=lambda one: one.__name__)
def test_a_hundred_thousand_unknown_members_are_a_few_errors(model):
    began_s = time.process_time()
    with pytest.raises(ValidationError) as refused:
        model.model_validate(HOSTILE["mapping"])
    unknown = [one["loc"] for one in refused.value.errors() if one["type"] == "extra_forbidden"]
    assert 3 < len(unknown) < FEW
    assert time.process_time() - began_s < 0.2


def test_a_plan_that_is_wrong_everywhere_is_told_in_little_time():
    """All wrong steps and temporaries count, which people write by hand; they are 256 each."""
    wrong = {"grid": [[]] * 3, "block": [[]] * 3, "cluster": [[]] * 3, "args": [[]] * 64, "shared_bytes": []}
    step = {"kind": "launch", "kernel": "", "cooperative": 7, **wrong, **HOSTILE["mapping of long names"]}
    temporary = {"name": "", "dtype": "x", "shape": [[]] * 8, **HOSTILE["mapping of long names"]}
    plan = {"steps": [step] * 256, "temporaries": [temporary] * 256}
    began_s = time.process_time()
    with pytest.raises(ValidationError) as refused:
        Batch.model_validate({"submissions": [{"problem": "relu", "source": "", "plan": plan}] * 512})
    assert refused.value.error_count() < 7000
    assert len(in_plain_words(refused.value)) < 1000
    assert time.process_time() - began_s < 3


class _Lists(Wire):
    some: typing.Annotated[tuple[int, ...], MaxLength(3, minimum=1)]


@pytest.mark.parametrize(
    ("given", "kind"),
    [([1, 2, 3, 4], "too_long"), (["x", "y", "z", 4], "too_long"), ([], "too_short"), (["x", "y"], "int_type")],
)
def test_a_length_is_looked_at_before_the_items_and_the_first_wrong_item_ends_it(given, kind):
    with pytest.raises(ValidationError) as refused:
        _Lists.model_validate({"some": given})
    assert [one["type"] for one in refused.value.errors()] == [kind]


def test_bounds_of_lists_stand_in_the_schema():
    assert TypeAdapter(_Lists).json_schema()["properties"]["some"] == {
        "items": {"type": "integer"},
        "maxItems": 3,
        "minItems": 1,
        "title": "Some",
        "type": "array",
    }
