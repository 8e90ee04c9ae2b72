"""Configurations from files: read, checked, and refused with the place of every mistake and what was probably meant.

A file is YAML 1.2 and holds only what differs from the defaults of `trainer.config.schema`; each value can be set on
the command line as well, as `algorithm.learning_rate=3e-6`.

YAML: version 1.2.2, section 10.3 (core schema), so `off` is a word and `1e-5` a number.
"""

import copy
import difflib
import re
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from trainer.config.schema import TrainingConfig
from trainer.errors import ConfigurationError

READY: Final = Path(__file__).with_name("ready")
ALIASES: Final = {
    "allocation": "qwen2.5-coder-7b-grpo-8gpu",
    "cpu-demo": "tiny-ppo-cpu",
    "critique": "qwen2.5-coder-7b-ppo-4gpu",
    "one-gpu": "qwen2.5-coder-1.5b-grpo-1gpu",
    "quick-test": "tiny-grpo-cpu",
    "requirements": "qwen2.5-coder-7b-ppo-8gpu",
    "warm-start": "smollm2-135m-grpo-1gpu",
}
"""Other names of ready configurations, which say where their settings come from; runs and documents name them."""
_AGENTS: Final = ("generator", "optimizer", "tester")
"""Sections that are agents; some may be null."""
_SHOWN: Final = 100
"""Letters of a value that a complaint repeats."""
_BOUNDS: Final = {"greater_than": "gt", "greater_than_equal": "ge", "less_than": "lt", "less_than_equal": "le"}
Place = tuple[str | int, ...]
"""The way to a value: names of fields and indices of lists."""


@dataclass(frozen=True)
class ReadyFile:
    """A configuration that comes with the trainer."""

    name: str
    summary: str
    """Its first comment line."""
    path: Path
    alias: str | None = None
    """Its other name, which does as well."""


class _Loader(yaml.SafeLoader):
    """YAML 1.2: PyYAML itself still reads `off` as false and `1e-5` as text, as version 1.1 did."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", list("-+.0123456789")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), _first)
# PyYAML's own constructors follow version 1.1, in which a leading 0 means octal.
_Loader.add_constructor("tag:yaml.org,2002:int", lambda _, node: int(node.value))
_Loader.add_constructor("tag:yaml.org,2002:float", lambda _, node: float(node.value))


def ready_files() -> tuple[ReadyFile, ...]:
    """The configurations that come with the trainer, by name: model, algorithm, size."""
    aliases = {name: alias for alias, name in ALIASES.items()}
    made = []
    for path in sorted(READY.glob("*.yaml")):
        first = path.read_text(encoding="utf-8").partition("\n")[0]
        made.append(ReadyFile(path.stem, first.removeprefix("#").strip(), path, aliases.get(path.stem)))
    return tuple(made)


def find_config(name: str) -> Path:
    """The file that `name` means: one that is ready, or a path. Raises ConfigurationError."""
    known = {each.name: each.path for each in ready_files()}
    known |= {each.alias: each.path for each in ready_files() if each.alias is not None}
    if name in known:
        return known[name]
    path = Path(name)
    if path.is_file():
        return path
    if path.is_dir():
        raise ConfigurationError(f"{name} is a folder; a configuration is a YAML file.")
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    meant = f" Did you mean {near[0]}?" if near else ""
    raise ConfigurationError(
        f"There is no configuration {name}: neither a file, nor one of {', '.join(known)}.{meant}"
    )


def load_config(name: str, overrides: Sequence[str] = ()) -> TrainingConfig:
    """The configuration `name` (ready, or a file) with `overrides` such as `seed=3` laid over it.

    Raises ConfigurationError, which names every mistake with its place.
    """
    path = find_config(name)
    before, places, complaints = _parsed(path)
    if isinstance(before, dict):
        before.setdefault("name", name if name in ALIASES else path.stem)
    values = copy.deepcopy(before)
    complaints += [said for override in overrides if (said := _overlay(values, places, override)) is not None]
    if complaints:
        raise ConfigurationError("\n".join(complaints))
    try:
        return TrainingConfig.model_validate(values)
    except ValidationError as error:

        def place_of(one: ErrorDetails) -> str:
            # What contradicts another setting may stand elsewhere than the section that notices it.
            way = tuple(one["loc"])
            known = next((places[way[:n]] for n in range(len(way), -1, -1) if way[:n] in places), str(path))
            return _blamed(before, overrides, one) or known if one["type"] == "value_error" else known

        raise ConfigurationError("\n".join(_explained(error, place_of))) from None


def as_yaml(config: TrainingConfig, *, changed_only: bool = False) -> str:
    """The configuration as a file that `load` reads again to the same; `changed_only` leaves the defaults out."""
    values = config.model_dump(mode="json", exclude_defaults=changed_only)
    # The name of the file would be taken otherwise.
    values = {"name": config.name, **values}
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=100)


def described(kind: type[BaseModel] = TrainingConfig, prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Every field: its dotted name, type, default and meaning, in the order of the schema."""
    for name, field in kind.model_fields.items():
        inner = _section_of(field.annotation)
        if inner is not None and name not in _AGENTS:
            yield from described(inner, f"{prefix}{name}.")
        elif inner is not None:
            default = "an agent" if field.default is not None else "null"
            yield (
                f"{prefix}{name}",
                "Agent, null" if _optional(field.annotation) else "Agent",
                default,
                str(field.description),
            )
            if name in ("generator", "tester"):
                yield from described(inner, f"{prefix}{name}.")
        else:
            yield (
                f"{prefix}{name}",
                _type_name(field.annotation),
                _default_text(field.default),
                str(field.description),
            )


def _parsed(path: Path) -> tuple[Any, dict[Place, str], list[str]]:
    """Values, where each stands (`file:line:column`), and what is wrong with the text itself."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from None
    places: dict[Place, str] = {}
    complaints: list[str] = []
    loader: _Loader | None = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return {}, {}, []
        _walk(node, (), places, complaints, str(path))
        return loader.construct_document(node), places, complaints
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise ConfigurationError(f"{where}: this is no YAML: {error.problem or error.context}.") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigurationError(f"{path}: this is no YAML: {error}") from None
    finally:
        if loader:
            loader.dispose()


def _walk(node: yaml.Node, way: Place, places: dict[Place, str], complaints: list[str], file: str) -> None:
    def place(of: yaml.Node) -> str:
        return f"{file}:{of.start_mark.line + 1}:{of.start_mark.column + 1}"

    places.setdefault(way, place(node))
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            name = str(key.value)
            if name in seen:
                complaints.append(f"{place(key)}: {name} stands here twice. Keep one of the two.")
            seen.add(name)
            places[(*way, name)] = place(key)
            _walk(value, (*way, name), places, complaints, file)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _walk(value, (*way, index), places, complaints, file)


def _overlay(values: Any, places: dict[Place, str], override: str) -> str | None:
    """Lay `a.b=value` over `values`; what is wrong with it, if anything is."""
    name, equals, text = override.partition("=")
    way = tuple(name.strip().split("."))
    if not equals or not all(way):
        return f"{override}: write it as name=value, for example algorithm.learning_rate=3e-6."
    try:
        value = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError:
        value = text
    inner = values
    for step in way[:-1]:
        if isinstance(inner, dict) and inner.get(step) is None:
            inner[step] = {}
        inner = inner[step] if isinstance(inner, dict) else None
    if not isinstance(inner, dict):
        return f"{override}: {'.'.join(way[:-1]) or 'the file'} is a single value, and has no parts."
    inner[way[-1]] = value
    where = _on_the_command_line([override])
    # A section that the file has keeps its place: it may hold other mistakes.
    for length in range(1, len(way)):
        places.setdefault(way[:length], where)
    for inside in [one for one in places if one[: len(way)] == way]:
        del places[inside]
    places[way] = where
    return None


def _on_the_command_line(overrides: Sequence[str]) -> str:
    # An address may hold a password.
    shown = [f"{one.partition('=')[0]}=…" if re.search("=.*://.*@", one) else one for one in overrides]
    return f"{', '.join(map(_begun, shown))} (command line)"


def _blamed(before: Any, overrides: Sequence[str], complaint: ErrorDetails) -> str | None:
    """Those of the overrides that this complaint is due to; None where the file alone is as wrong."""

    def is_made(kept: Sequence[str]) -> bool:
        values = copy.deepcopy(before)
        for override in kept:
            _overlay(values, {}, override)
        try:
            TrainingConfig.model_validate(values)
        except ValidationError as error:
            # The numbers in it may be others.
            return any((_unnumbered(one), one["loc"]) == asked for one in error.errors(include_url=False))
        return False

    asked = (_unnumbered(complaint), complaint["loc"])
    if is_made(()):
        return None
    needed = [
        one for index, one in enumerate(overrides) if not is_made([*overrides[:index], *overrides[index + 1 :]])
    ]
    # Where each of two is enough, neither is needed.
    return _on_the_command_line(needed or [one for one in overrides if is_made([one])] or overrides)


def _unnumbered(complaint: ErrorDetails) -> str:
    return re.sub(r"\d+", "", complaint["msg"])


def _explained(error: ValidationError, place_of: Callable[[ErrorDetails], str]) -> Iterator[str]:
    for one in error.errors(include_url=False):
        way = tuple(one["loc"])
        name = ".".join(map(str, way))
        yield f"{place_of(one)}: {f'{name}: ' if name else ''}{_meaning(one, way)}"


def _meaning(one: ErrorDetails, way: Place) -> str:
    message = one["msg"].removeprefix("Value error, ")
    if one["type"] in _BOUNDS:
        # pydantic writes out all zeros of a small one.
        message = f"{message.rpartition(' ')[0]} {_number((one.get('ctx') or {})[_BOUNDS[one['type']]])}"
    if one["type"] == "extra_forbidden":
        meant = _nearest(way)
        return f"there is no such setting{f'; did you mean {meant}?' if meant else ''}"
    given = one.get("input")
    if one["type"] in ("literal_error", "enum"):
        expected = re.findall(r"'([^']*)'", str((one.get("ctx") or {}).get("expected", "")))
        near = difflib.get_close_matches(str(given), expected, n=1, cutoff=0.5)
        meant = f" Did you mean {near[0]}?" if near else ""
        return f"{given!r} is none of {', '.join(expected)}.{meant}"
    if one["type"] in ("model_type", "model_attributes_type", "dict_type"):
        section = _section_at(way)
        parts = list(section.model_fields)
        if not way:
            return f"a configuration is settings with names, such as `{parts[0]}: …`"
        first = ".".join([*map(str, way), parts[0]])
        either = ", or null" if way[-1] in _AGENTS else ""
        return f"this is a section: write its settings, such as {first}=…{either}; it is {given!r}"
    # An address may hold a password.
    if way[-1:] == ("url",) or not (given is None or isinstance(given, bool | int | float | str)):
        return message
    return f"{message}; it is {_begun(repr(given))}"


def _number(value: float) -> str:
    return str(value).removesuffix(".0")


def _begun(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _nearest(way: Place) -> str | None:
    """The setting that a wrong name may have been meant to be: one beside it, else one of the same name elsewhere."""
    wrong, inside = str(way[-1]), [str(step) for step in way[:-1]]

    def likeness(path: str) -> float:
        beside = path.split(".")[:-1] == inside
        return difflib.SequenceMatcher(None, wrong, path.rpartition(".")[2]).ratio() + 0.15 * beside

    settings = [path for path, *_ in described()]
    settings += [".".join([*inside, name]) for name in _section_at(way[:-1]).model_fields]
    best = max(settings, key=likeness)
    return best if likeness(best) >= 0.6 else None


def _section_at(way: Place) -> type[BaseModel]:
    kind: type[BaseModel] = TrainingConfig
    for step in way:
        field = kind.model_fields.get(str(step))
        inner = _section_of(field.annotation) if field else None
        if inner is None:
            break
        kind = inner
    return kind


def _section_of(annotation: Any) -> type[BaseModel] | None:
    for each in (annotation, *typing.get_args(annotation)):
        if isinstance(each, type) and issubclass(each, BaseModel):
            return each
    return None


def _optional(annotation: Any) -> bool:
    return isinstance(annotation, types.UnionType) and type(None) in typing.get_args(annotation)


def _type_name(annotation: Any) -> str:
    if typing.get_origin(annotation) is typing.Annotated:
        return _type_name(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) is typing.Literal:
        return ", ".join(str(each) for each in typing.get_args(annotation))
    if isinstance(annotation, types.UnionType):
        return ", ".join("null" if each is type(None) else _type_name(each) for each in typing.get_args(annotation))
    if typing.get_origin(annotation) is tuple:
        return f"list of {_type_name(typing.get_args(annotation)[0])}"
    if typing.get_origin(annotation) is dict:
        return f"name: {_type_name(typing.get_args(annotation)[1])}"
    if hasattr(annotation, "__members__"):
        return ", ".join(each.value for each in annotation)
    return {str: "text", int: "whole number", float: "number", bool: "true, false"}[annotation]


def _default_text(value: Any) -> str:
    if isinstance(value, tuple | dict):
        return ", ".join(map(str, value)) or "none"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)
