"""What pydantic found wrong with what a caller gave, in plain words."""

import difflib
import math
from collections.abc import Sequence
from typing import Any, Final

from pydantic import ValidationError

from common.contract import Reference, Settings, Submission
from evaluator.errors import WrongArgumentError

_MAX_CHARS = 80
"""How much of a name or value is quoted: enough to find it, however long the caller made it."""


def in_plain_words(error: ValidationError) -> str:
    """The first few of pydantic's findings in plain words, one for each place."""
    found: dict[str, list[str]] = {}
    for one in error.errors():
        parts = [part if isinstance(part, int) else _short(part) for part in one["loc"] if not _is_type(part)]
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).lstrip(".")
        found.setdefault(place or "it", []).append(_in_words(dict(one)) + _beside(one["type"], parts))
    said = [f"{place} {' and '.join(_together(words))}" for place, words in list(found.items())[:3]]
    return "; ".join(said) + (f"; and {len(found) - 3} more" if len(found) > 3 else "") + "."


def _is_type(part: int | str) -> bool:
    """Whether this part of a place is the type that was tried there, as pydantic names it."""
    return part in _NO_PLACES or (isinstance(part, str) and part.startswith("function-"))


def _together(words: Sequence[str]) -> Sequence[str]:
    """What was found at one place, once; of a number or an expression only that."""
    return [_EXPRESSION] if _EXPRESSION in words else list(dict.fromkeys(words))


def _beside(kind: str, place: Sequence[int | str]) -> str:
    """What else there is to say of a member of a request: where one that is unknown belongs, or is like another."""
    *above, name = place or [""]
    if kind == "string_too_short" and name == "problem":
        return ", and there is no `reference`: one of the two says what to grade for"
    inside = above[-1] if above and isinstance(above[-1], str) else ""
    if kind != "extra_forbidden" or inside not in _FIELDS:
        return ""
    if not inside and name in Settings.model_fields:
        return ", but in `settings`"
    near = difflib.get_close_matches(str(name), _FIELDS[inside], n=1)
    return f" (perhaps `{near[0]}` is meant)" if near else ""


_FIELDS: Final = {
    "": list(Submission.model_fields),
    "settings": list(Settings.model_fields),
    "reference": list(Reference.model_fields),
}
"""Members of a request, by the object that has them."""


def checked_submission(given: dict[str, object]) -> Submission:
    """The submission with these members. Raises WrongArgumentError, with the first few that cannot be."""
    try:
        return Submission.model_validate(given)
    except ValidationError as error:
        places = {str(one["loc"][0]) for one in error.errors() if one["loc"]}
        remedies = [remedy for place, remedy in _REMEDIES.items() if place in places]
        raise WrongArgumentError(
            f"This cannot be graded: {in_plain_words(error)}", " ".join(remedies) or None
        ) from None


_REMEDIES: Final = {
    "problem": "`assay problems` lists the ids; a file of others is given as a Path or a Reference.",
    "source": "Give the text of one file, without large tables: they can be computed, or be inputs.",
    "dialect": "Leave `dialect` out: then the text says it.",
    "plan": "docs/launch-plans.md shows what a launch plan holds.",
    "backend": "Leave `backend` out: then a GPU is used where one can be.",
    "settings": "`assay grade --help` says what each can be.",
}
_NO_PLACES = ("launch", "fill", "copy", "constrained-str", "str", "int", "float")
"""What pydantic puts between the places, to say which of several types it tried."""
_EXPRESSION = "must be an integer or an expression"
_WORDS = {
    "missing": "is missing",
    "extra_forbidden": "is not known here",
    "int_type": "must be an integer",
    "int_from_float": "must be an integer",
    "string_type": "must be a text",
    "float_type": "must be a number",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "bool_type": "must be true or false",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dict_type": "must be an object",
    "finite_number": "must be a finite number",
    "too_long": "has too many values: {max_length} are allowed",
    "too_short": "has too few values: it needs {min_length}",
    "string_too_long": "is longer than {max_length} characters",
    "string_too_short": "is empty",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "union_tag_invalid": "has a kind {tag!r}, and it must be one of {expected_tags}",
    "union_tag_not_found": "has no kind",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "json_invalid": "is not JSON: {error}",
    "value_error": "is wrong: {error}",
}
_FORMS: Final = {
    r"^sm_[0-9]{2,3}a?$": "must be an architecture such as sm_80 or sm_90a",
    r"^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}$": "must be a file's name alone, of at most 100 letters, digits and _.+-",
    r"^[\x21-\x7e]{1,200}$": "must have 1 to 200 printable ASCII characters, and no blank",
}
"""What a pattern that callers meet asks for: of `arch`, of a reference's `name`, of `Idempotency-Key`."""


def _in_words(one: dict[str, Any]) -> str:
    context, kind = one.get("ctx", {}), one["type"]
    if "tag" in context:
        context = {**context, "tag": _short(context["tag"])}
    if kind == "string_pattern_mismatch":
        form = _FORMS.get(context.get("pattern", ""))
        said = f": it {form}" if form else ", which cannot be a name or a value here"
        return f"is {_short(str(one['input']))!r}{said}"
    if isinstance(one["input"], float) and math.isnan(one["input"]):
        return "must be a number"
    words = _WORDS[kind].format(**context) if kind in _WORDS else f"is wrong: {one['msg']}"
    # Where another type was tried too, that is a launch plan's expression.
    return _EXPRESSION if kind.startswith("int_") and _is_type(one["loc"][-1]) else words


def _short(value: Any) -> Any:
    return value[:_MAX_CHARS] if isinstance(value, str) else value
