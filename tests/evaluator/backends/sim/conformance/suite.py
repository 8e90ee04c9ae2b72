"""All forms, in one order."""

from functools import cache

from conformance.forms import Form
from conformance.lane_forms import lane_forms
from conformance.matrix_forms import matrix_forms
from conformance.warp_forms import warp_forms


@cache
def forms() -> tuple[Form, ...]:
    """Every form once."""
    return tuple(dict.fromkeys([*lane_forms(), *warp_forms(), *matrix_forms()]))
