"""Remedies name commands that work where this copy lies: in a checkout, or where pip put it."""

import shlex
import sys
from pathlib import Path

import pytest

from evaluator import __version__, installation

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("extra", ["gpu", "nvcc", "service"])
def test_in_a_checkout_it_is_a_target_of_the_makefile(extra):
    program, target = shlex.split(installation.install_command(extra))
    assert program == "make"
    assert f"\n{target}:" in (ROOT / "Makefile").read_text()


def test_where_pip_installed_it_this_python_installs_the_rest(monkeypatch, tmp_path):
    monkeypatch.setattr(installation, "_ROOT", tmp_path)
    assert not installation.in_checkout()
    assert shlex.split(installation.install_command("nvcc")) == [
        *(sys.executable, "-m", "pip", "install"),
        f"assay[nvcc]=={__version__}",
    ]
    builds = shlex.split(installation.install_command("gpu"))
    assert builds == [sys.executable, "-m", "evaluator.backends.gpu.device.install"]


def test_the_command_is_named_as_it_can_be_typed(monkeypatch, tmp_path):
    folder = tmp_path / ".venv" / "bin"
    folder.mkdir(parents=True)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setenv("PATH", "/nowhere")
    assert installation.own_command() == f"{folder}/python -m assay"
    (folder / "assay").write_text("#!/bin/sh\n")
    (folder / "assay").chmod(0o755)
    assert installation.own_command() == str(folder / "assay")
    monkeypatch.chdir(tmp_path)
    assert installation.own_command() == ".venv/bin/assay"
    monkeypatch.setenv("PATH", str(folder))
    assert installation.own_command() == "assay"
