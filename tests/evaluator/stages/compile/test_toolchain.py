import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evaluator.errors import ToolchainMissingError
from evaluator.stages.compile import toolchain
from evaluator.stages.compile.toolchain import find_toolchain


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    find_toolchain.cache_clear()
    yield
    find_toolchain.cache_clear()


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_the_toolchain_is_found_whole_and_real():
    found = find_toolchain()
    for program in (found.nvcc, found.cicc, found.ptxas):
        assert program.read_bytes()[:4] == b"\x7fELF"
    assert found.host_compiler.is_file()
    assert found.label == f"nvcc {found.version}"
    said = subprocess.run([found.nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    assert f"V{found.version}" in said
    assert "sm_80" in found.architectures
    assert found.supports("sm_90a")
    assert not found.supports("sm_80a")
    assert not found.supports("sm_20")


def test_headers_are_the_toolkits_and_the_host_compilers():
    headers = find_toolchain().headers
    for name in ("cuda_fp16.h", "cstdint", "stdio.h"):
        assert any((folder / name).is_file() for folder in headers), name


def test_a_wrapper_script_is_seen_through(tmp_path, monkeypatch):
    real = find_toolchain()
    find_toolchain.cache_clear()
    monkeypatch.setenv("ASSAY_NVCC", str(script(tmp_path / "wrapped/nvcc", f'exec {real.nvcc} "$@"')))
    assert find_toolchain() == real


def test_a_second_process_starts_warm():
    find_toolchain()
    code = (
        "import time; from evaluator.stages.compile.toolchain import find_toolchain\n"
        "start = time.perf_counter(); find_toolchain(); print(time.perf_counter() - start)"
    )
    taken_s = [float(subprocess.check_output([sys.executable, "-c", code], env=os.environ)) for _ in range(3)]
    assert min(taken_s) < 0.05


def test_a_changed_toolchain_has_another_digest(tmp_path, monkeypatch):
    real = find_toolchain()
    root = real.nvcc.parent.parent
    copied = tmp_path / "toolkit"
    (copied / "bin").mkdir(parents=True)
    for name in ("nvvm", "targets", "include", "lib"):
        if (root / name).exists():
            (copied / name).symlink_to(root / name)
    for program in (root / "bin").iterdir():
        if program.name != "nvcc":
            (copied / "bin" / program.name).symlink_to(program)
    changed = copied / "bin/nvcc"
    changed.write_bytes(real.nvcc.read_bytes() + b"\0")
    changed.chmod(0o755)
    monkeypatch.setenv("ASSAY_NVCC", str(changed))
    find_toolchain.cache_clear()
    other = find_toolchain()
    assert other.version == real.version
    assert other.digest != real.digest
    before_s = time.time() - 1000
    os.utime(changed, (before_s, before_s))
    find_toolchain.cache_clear()
    assert find_toolchain().digest == other.digest


def test_no_compiler_says_how_to_get_one(monkeypatch):
    monkeypatch.setattr(toolchain, "_candidates", lambda: iter(()))
    with pytest.raises(ToolchainMissingError) as caught:
        find_toolchain()
    assert "make nvcc" in caught.value.remedy


def test_a_wrong_setting_is_not_passed_over(monkeypatch, tmp_path):
    monkeypatch.setenv("ASSAY_NVCC", str(tmp_path / "nothing"))
    with pytest.raises(ToolchainMissingError, match="ASSAY_NVCC"):
        find_toolchain()


def test_no_host_compiler_says_how_to_get_one(monkeypatch, tmp_path):
    monkeypatch.setenv("ASSAY_NVCC", str(find_toolchain().nvcc))
    find_toolchain.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainMissingError) as caught:
        find_toolchain()
    assert "apt-get install g++" in caught.value.remedy


def test_an_old_toolkit_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(toolchain, "OLDEST", (99, 0))
    with pytest.raises(ToolchainMissingError, match=r"12\.4") as caught:
        find_toolchain()
    assert caught.value.remedy


def test_half_a_toolkit_is_refused(monkeypatch, tmp_path):
    lone = tmp_path / "toolkit/bin/nvcc"
    lone.parent.mkdir(parents=True)
    lone.write_bytes(find_toolchain().nvcc.read_bytes())
    lone.chmod(0o755)
    find_toolchain.cache_clear()
    monkeypatch.setenv("ASSAY_NVCC", str(lone))
    with pytest.raises(ToolchainMissingError, match="cicc"):
        find_toolchain()


def test_wheels_of_this_python_are_the_last_resort(monkeypatch, tmp_path):
    real = find_toolchain()
    wheel = tmp_path / "site/nvidia/cu13/bin/nvcc"
    script(wheel, f'exec {real.nvcc} "$@"')
    monkeypatch.setattr(toolchain.sysconfig, "get_path", lambda kind: str(tmp_path / "site"))
    origins = [(path, origin) for path, origin in toolchain._candidates()]
    assert origins[-1] == (wheel, "site-packages")


def test_a_cache_that_cannot_be_written_costs_time_only(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert find_toolchain().version
