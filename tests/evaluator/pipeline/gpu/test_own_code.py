"""The referee's own device code: compiled once; where it cannot be had, that is said, and array code serves."""

import logging

import pytest

from evaluator.backends.gpu.checks import KERNELS
from evaluator.disk_cache import Cache
from evaluator.errors import ToolchainMissingError
from evaluator.pipeline.gpu import own_code as module
from evaluator.pipeline.gpu.own_code import OwnCodeError, own_code, own_image
from evaluator.stages.compile.toolchain import find_toolchain


def test_it_is_compiled_once_for_an_architecture(tmp_path, monkeypatch):
    cache, made = Cache(tmp_path, 1 << 28), []
    monkeypatch.setattr(module, "own_image", lambda *asked: made.append(asked) or own_image(*asked))
    first = own_code(cache, "sm_90")
    assert all(name.encode() in first for name in KERNELS)
    assert own_code(cache, "sm_90") == first
    assert own_code(cache, "sm_80") != first
    assert [arch for _, arch, _ in made] == ["sm_90", "sm_80"]


def test_without_a_compiler_there_is_none_and_that_is_said(tmp_path, monkeypatch, caplog):
    def missing():
        raise ToolchainMissingError("no CUDA compiler (nvcc) was found on this machine")

    monkeypatch.setattr(module, "find_toolchain", missing)
    with caplog.at_level(logging.WARNING, logger="assay.referee"):
        assert own_code(Cache(tmp_path, 1 << 28), "sm_90") is None
    assert "slower: no CUDA compiler" in caplog.text


def test_what_does_not_compile_is_not_kept(tmp_path, monkeypatch):
    cache = Cache(tmp_path, 1 << 28)
    broken = tmp_path / "broken.cu"
    broken.write_text("this is no CUDA")
    monkeypatch.setattr(module, "SOURCE", broken)
    assert own_code(cache, "sm_90") is None
    with pytest.raises(OwnCodeError, match="error"):
        own_image(find_toolchain(), "sm_90", "cubin")
