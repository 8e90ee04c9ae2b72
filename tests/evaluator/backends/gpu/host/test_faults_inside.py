"""What a process for host code says of an exception."""

import pytest

from evaluator.backends.gpu.host.inside import process


def refused_by(module):
    space = {"__name__": module}
    exec("def launch():\n    raise PermissionError(1, 'Operation not permitted')\n", space)
    try:
        space["launch"]()
    except PermissionError as error:
        return error


def denied():
    raise PermissionError(1, "Operation not permitted")


@pytest.mark.parametrize(
    ("module", "fork", "kind"),
    [
        ("triton.backends.nvidia.compiler", denied, "no_process"),
        ("triton.backends.nvidia.compiler", process.os.fork, "exception"),
        ("submission", denied, "exception"),
    ],
)
def test_what_tritons_compiler_is_refused_is_the_machines_doing(module, fork, kind, monkeypatch):
    monkeypatch.setattr(process.os, "fork", fork)
    assert process._fault(refused_by(module))["kind"] == kind
