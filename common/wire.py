"""The ground of the wire contract: the frozen model that every message is made of, and the element types."""

import ast
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property
from itertools import islice, pairwise
from typing import Any, Final, Generic, TypeVar, cast

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticKnownError, core_schema, from_json

_UNKNOWN_TOLD = 4
"""How many unknown members of one object are reported: a message names three, and says that there are more."""


T = TypeVar("T")


def _is_no_integer(value: object) -> object:
    if isinstance(value, bool | str | bytes):
        raise PydanticKnownError("int_type")
    return value  # 7.0 is an integer in JSON Schema, and 7.5 is refused after this


def _make_strict(schema: Any, inside: bool) -> None:
    """Let a model's schema take no number for another type; a model in it has seen to its own."""
    if isinstance(schema, list | tuple):
        for one in schema:
            _make_strict(one, inside)
    elif isinstance(schema, dict):
        kind = schema.get("type")
        if kind == "int":
            lax = core_schema.no_info_before_validator_function(_is_no_integer, cast(CoreSchema, dict(schema)))
            schema.clear()
            schema.update(lax)
            return
        if kind in ("float", "bool"):
            schema["strict"] = True
        if not (inside and kind == "model"):
            for one in schema.values():
                _make_strict(one, inside or kind == "model")


class Wire(BaseModel):
    """A message, or a part of one. Frozen; an unknown field is an error, never ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Numbers and truth values are what the JSON schema says they are: `"5"` is no 5, and neither is `true` a 1.

        Pydantic's own `strict` would also ask for tuples and enumerations, which JSON has not.
        """
        made = handler(source)
        _make_strict(made, inside=False)
        return made

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Each field's docstring is its description in a schema, and is read only where one is made.

        Pydantic's own `use_attribute_docstrings` reads them at import: 0.14 s of each start of the command.
        """
        made = handler(schema)
        properties = handler.resolve_ref_schema(made).get("properties", {})
        for name, text in _docstrings_of_fields(cls).items():
            if name in properties:
                properties[name].setdefault("description", text)
        return made


class Request(Wire):
    """A message, or a part of one, that a caller writes: what is wrong with it costs little, however much that is.

    Each list, mapping and text of a request has a `MaxLength`, a `max_length` or a pattern of bounded length.
    """

    @model_validator(mode="before")
    @classmethod
    def _few_unknown(cls, given: Any) -> Any:
        """Each unknown member is an error of its own, at a thousand times its size: leave out all but a few."""
        known = cls.model_fields.keys()
        if not isinstance(given, dict) or len(given) <= len(known) + _UNKNOWN_TOLD:
            return given
        some = islice((name for name in given if name not in known), _UNKNOWN_TOLD)
        return {name: given[name] for name in (*(known & given.keys()), *some)}


def _docstrings_of_fields(model: type[BaseModel]) -> dict[str, str]:
    """The docstring below each field of a model, by the field's name; those of a subclass come last."""
    found: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        # A generic model with its parameter has no source of its own.
        if issubclass(owner, BaseModel) and owner is not BaseModel and "[" not in owner.__name__:
            found |= _docstrings_of_module(owner.__module__).get(owner.__name__, {})
    return found


@cache
def _docstrings_of_module(name: str) -> dict[str, dict[str, str]]:
    """The docstrings below the fields of each class of a module; none where its source is not there."""
    found: dict[str, dict[str, str]] = {}
    try:
        source = inspect.getsource(sys.modules[name])
    except (OSError, TypeError):
        return found
    for definition in ast.walk(ast.parse(source)):
        if isinstance(definition, ast.ClassDef):
            documented = found[definition.name] = {}
            for field, below in pairwise(definition.body):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(id=named)), ast.Expr(value=ast.Constant(value=str(text))):
                        documented[named] = inspect.cleandoc(text)
    return found


@dataclass(frozen=True)
class MaxLength:
    """Annotation of a list, a mapping or a text: holds at most `maximum` items or characters.

    The length is looked at before any item is, and the first wrong item ends the look unless it `goes_on`: a list of
    a million wrong items is one error and not a million. A list has its bounds in the JSON schema; a text and a
    mapping have not.
    """

    maximum: int
    minimum: int = 0
    """Least items of a list."""
    goes_on: bool = False
    """Whether the items behind a wrong one are looked at as well: for a list that people write."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        inner: Any = handler(source)
        if inner["type"] == "str":
            return core_schema.no_info_before_validator_function(self._of_a_text, inner)
        if inner["type"] == "dict":
            return core_schema.no_info_before_validator_function(self._of_a_mapping, inner)
        assert inner["type"] == "tuple", f"{source} has no length"
        inner.update(max_length=self.maximum, fail_fast=not self.goes_on)
        # Not as the tuple's own least, which a list that ends at its first wrong item falls below as well.
        inner = core_schema.no_info_after_validator_function(self._not_too_few, inner)
        return core_schema.no_info_before_validator_function(self._of_a_list, inner)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        told = handler(schema)
        return {**told, "minItems": self.minimum} if self.minimum else told

    def _of_a_text(self, given: Any) -> Any:
        if isinstance(given, str) and len(given) > self.maximum:
            raise PydanticKnownError("string_too_long", {"max_length": self.maximum})
        return given

    def _of_a_mapping(self, given: Any) -> Any:
        if isinstance(given, Mapping):
            self._not_too_many(given)
        return given

    def _of_a_list(self, given: Any) -> Any:
        if isinstance(given, Sequence) and not isinstance(given, str | bytes):
            self._not_too_many(given)
        return given

    def _not_too_many(self, given: Sized) -> None:
        if len(given) > self.maximum:
            lengths = {"field_type": "Tuple", "max_length": self.maximum, "actual_length": len(given)}
            raise PydanticKnownError("too_long", lengths)

    def _not_too_few(self, given: Any) -> Any:
        if len(given) < self.minimum:
            lengths = {"field_type": "Tuple", "min_length": self.minimum, "actual_length": len(given)}
            raise PydanticKnownError("too_short", lengths)
        return given


class DType(StrEnum):
    """Element types of tensors, temporaries and scalars."""

    FLOAT64 = "float64"
    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    INT64 = "int64"
    UINT64 = "uint64"
    INT32 = "int32"
    UINT32 = "uint32"
    INT16 = "int16"
    UINT16 = "uint16"
    INT8 = "int8"
    UINT8 = "uint8"

    @property
    def size_bytes(self) -> int:
        """Bytes that one element takes."""
        return 2 if self is DType.BFLOAT16 else int(self.value.lstrip("uintfloa")) // 8

    @property
    def is_float(self) -> bool:
        """True for the floating-point types."""
        return "float" in self.value


BYTES_AS_BASE64: Final = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
"""As `__pydantic_config__` of a dataclass that holds bytes and travels as JSON."""


@dataclass(frozen=True)
class SentByName(Generic[T]):
    """Annotation of a value that sender and receiver both have: it travels as its name.

    `find` gives what has a name, and raises ValueError where nothing has it.
    """

    name_of: Callable[[T], str]
    find: Callable[[str], T]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(
            self.find,
            core_schema.str_schema(),
            serialization=core_schema.plain_serializer_function_ser_schema(
                self.name_of, return_schema=core_schema.str_schema()
            ),
        )


@dataclass(frozen=True)
class SentAs(Generic[T]):
    """Annotation of a value that travels as another, of type `kind`: `plain` makes that, `made` the value of it."""

    kind: Any
    plain: Callable[[T], Any]
    made: Callable[[Any], T]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        inner = handler.generate_schema(self.kind)
        return core_schema.no_info_after_validator_function(
            self.made,
            inner,
            serialization=core_schema.plain_serializer_function_ser_schema(self.plain, return_schema=inner),
        )


def parse_json(text: bytes | bytearray) -> object:
    """The value of a JSON text, UTF-8. Raises ValueError: no JSON, a lone surrogate, nested deeper than 200."""
    value: object = from_json(text)
    return value


def as_bytes(message: Wire) -> bytes:
    """The JSON text of a message, UTF-8: a `str` of it would have the width of its widest character."""
    text: bytes = message.__pydantic_serializer__.to_json(message)
    return text


class Json(Generic[T]):
    """Dataclasses of plain values as JSON, between our own processes."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind

    @cached_property
    def _adapter(self) -> TypeAdapter[T]:
        # Made when it is first needed: it takes milliseconds, and few processes send anything.
        return TypeAdapter(self._kind)

    def dump(self, value: T) -> bytes:
        """The text, UTF-8."""
        return self._adapter.dump_json(value)

    def load(self, text: bytes) -> T:
        """Raises ValueError where `text` is anything else."""
        return self._adapter.validate_json(text)
