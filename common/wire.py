"""The ground of the wire contract: the frozen model that every message is made of, and the element types."""

from enum import StrEnum
from typing import Final, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter


class Wire(BaseModel):
    """A message, or a part of one. Frozen; an unknown field is an error, never ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


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

T = TypeVar("T")


class Json(Generic[T]):
    """Dataclasses of plain values as JSON, between our own processes."""

    def __init__(self, kind: type[T]) -> None:
        self._adapter = TypeAdapter(kind)

    def dump(self, value: T) -> bytes:
        """The text, UTF-8."""
        return self._adapter.dump_json(value)

    def load(self, text: bytes) -> T:
        """Raises ValueError where `text` is anything else."""
        return self._adapter.validate_json(text)
