"""What every part of a configuration is."""

from typing import Annotated, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationInfo, field_validator

from trainer.bounds import LEAST_TEMPERATURE


class Section(BaseModel):
    """A part of the configuration."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        validate_default=True,
        allow_inf_nan=False,
        protected_namespaces=(),
    )

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, value: object, info: ValidationInfo) -> object:
        annotation = cls.model_fields[str(info.field_name)].annotation
        if isinstance(value, bool) and bool not in (annotation, *get_args(annotation)):
            raise ValueError("true and false are no value of this setting")
        return value


def _zero_or_enough(temperature: float) -> float:
    if 0 < temperature < LEAST_TEMPERATURE:
        raise ValueError(f"Input should be 0, for the most probable token, or at least {LEAST_TEMPERATURE:g}")
    return temperature


Temperature = Annotated[float, AfterValidator(_zero_or_enough)]
"""Of sampling; 0 takes the most probable token."""
