"""How PyCUDA is configured and what is refused before anything is downloaded; the build itself takes two minutes."""

import importlib
import importlib.util
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from evaluator.backends.gpu.device import install
from evaluator.backends.gpu.device.install import InstallError, Package

COMPILER = next((Path(path) for path in map(shutil.which, ("g++", "c++", "clang++")) if path), None)


def test_the_extra_asks_for_all_that_is_used():
    names = {line.split("=")[0].split("<")[0].split(">")[0] for line in install.requirements()}
    assert names >= {"pycuda", "torch", "cuda-bindings", "nvidia-ml-py", "nvidia-cuda-runtime"}
    assert names >= {package.name for package in install.packages()}
    assert install.requirements("no-such-extra") == ()


def test_the_headers_are_of_the_release_that_the_driver_must_serve():
    release = f"=={install.CUDA[0]}.{install.CUDA[1]}.*"
    headers = [line for line in install.requirements() if line.startswith("nvidia-cuda-")]
    assert headers
    assert all(line.endswith(release) for line in headers)


def test_the_configuration_is_python_that_pycuda_can_execute(tmp_path):
    root = tmp_path / "it's a folder" / "cu13"
    settings: dict[str, object] = {}
    exec(install.configuration(root, tmp_path), settings)
    assert settings["CUDA_INC_DIR"] == [f"{root}/include"]
    assert settings["CUDADRV_LIB_DIR"] == [str(tmp_path)]
    assert settings["CUDA_ENABLE_CURAND"] is False


@pytest.mark.skipif(shutil.which("readelf") is None, reason="no readelf here")
def test_what_links_to_the_stand_in_asks_the_loader_for_the_driver(tmp_path):
    install.make_stand_in(tmp_path / "libcuda.so", COMPILER)
    (tmp_path / "user.cpp").write_text('extern "C" int cuInit(unsigned); int main() { return cuInit(0); }\n')
    linked = [COMPILER, "-shared", "-fPIC", "-Wl,--no-as-needed", tmp_path / "user.cpp", f"-L{tmp_path}", "-lcuda"]
    subprocess.run([*linked, "-o", tmp_path / "user.so"], check=True)
    told = subprocess.run(["readelf", "-d", tmp_path / "user.so"], capture_output=True, text=True, check=True).stdout
    assert "NEEDED" in told
    assert "[libcuda.so.1]" in told


def test_a_compiler_that_does_not_work_is_said(tmp_path):
    with pytest.raises(InstallError, match="/bin/false does not work"):
        install.make_stand_in(tmp_path / "libcuda.so", Path("/bin/false"))


def test_the_headers_are_where_pip_puts_them(tmp_path, monkeypatch):
    monkeypatch.setattr(install.sysconfig, "get_path", lambda kind: str(tmp_path / kind))
    with pytest.raises(InstallError, match="cudaProfiler"):
        install.cuda_root()
    include = tmp_path / "platlib/nvidia/cu13/include"
    include.mkdir(parents=True)
    (include / "cuda.h").touch()
    with pytest.raises(InstallError):
        install.cuda_root()
    (include / "cudaProfiler.h").touch()
    assert install.cuda_root() == include.parent


def test_an_archive_is_unpacked_inside_its_folder(tmp_path):
    source = tmp_path / "pycuda-2026.1"
    source.mkdir()
    (source / "setup.py").write_text("# set up\n")
    with tarfile.open(tmp_path / "pycuda-2026.1.tar.gz", "w:gz") as tar:
        tar.add(source, source.name)
    shutil.rmtree(source)
    assert (install._unpacked(tmp_path) / "setup.py").read_text() == "# set up\n"
    with pytest.raises(InstallError):
        install._unpacked(tmp_path / "nothing")


def test_another_compiler_builds_where_pythons_own_is_not_here(monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(install.sysconfig, "get_config_var", lambda name: "no-such-compiler -pthread")
    assert install.compilers(COMPILER) == {"CC": str(COMPILER), "CXX": str(COMPILER)}
    monkeypatch.setattr(install.sysconfig, "get_config_var", lambda name: f"{COMPILER} -pthread")
    assert install.compilers(COMPILER) == {}


class TestRefusals:
    """Before anything is downloaded, in words, with exit status 1."""

    def refused(self, capsys):
        assert install.main(["--without-torch"]) == 1
        ended = capsys.readouterr()
        assert ended.err.startswith("\nmake gpu: ")
        return ended.err

    @pytest.fixture(autouse=True)
    def no_download(self, monkeypatch):
        def pip(*arguments, environment=None):
            raise AssertionError(f"pip {arguments}")

        monkeypatch.setattr(install, "_pip", pip)

    def test_without_a_compiler(self, monkeypatch, capsys):
        monkeypatch.setenv("PATH", "/nowhere")
        monkeypatch.delenv("CXX", raising=False)
        assert "apt-get install g++" in self.refused(capsys)

    def test_without_pythons_headers(self, monkeypatch, capsys, tmp_path):
        monkeypatch.setattr(install.sysconfig, "get_path", lambda kind: str(tmp_path))
        assert f"python{sys.version_info.major}.{sys.version_info.minor}-dev" in self.refused(capsys)

    def test_with_an_old_driver(self, monkeypatch, capsys):
        monkeypatch.setattr(install, "driver_cuda", lambda: (12, 4))
        told = self.refused(capsys)
        assert "serves CUDA up to 12.4" in told
        assert "580" in told

    def test_on_a_full_disk(self, monkeypatch, capsys):
        monkeypatch.setattr(install, "missing", lambda: ("torch",))
        monkeypatch.setattr(install.shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 30))
        assert "1.0 GiB free" in self.refused(capsys)

    def test_in_an_environment_that_is_older_than_the_extra(self, monkeypatch, capsys):
        monkeypatch.setattr(install.importlib.metadata, "requires", lambda _: ["click>=8.1"])
        assert "no extra `gpu`" in self.refused(capsys)


def test_what_pip_says_when_it_fails_is_shown():
    with pytest.raises(InstallError, match=r"`pip frobnicate` failed:\n.*unknown command"):
        install._pip("frobnicate")


def test_packages_are_read_without_importing_them(tmp_path, monkeypatch):
    def installed(name, version):
        folder = tmp_path / f"{name}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        importlib.invalidate_caches()

    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    importlib.invalidate_caches()
    assert install.missing() == ("pycuda", "torch", "cuda-bindings", "nvidia-ml-py")
    torch = "from typing import Optional\n__version__ = '2.13.0'\ncuda: Optional[str] = '13.0'\nhip = None\n"
    installed("torch", "2.13.0")
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/version.py").write_text(torch)
    installed("cuda_bindings", "12.9.4")
    found = {package.name: package for package in install.packages()}
    assert found["torch"] == Package("torch", "2.13.0", "13.0")
    assert found["cuda-bindings"] == Package("cuda-bindings", "12.9.4", "12.9")
    (tmp_path / "torch/version.py").write_text(torch.replace("'13.0'", "None"))
    assert install._cuda_of_torch() == "none"


@pytest.mark.skipif(importlib.util.find_spec("pycuda") is not None, reason="PyCUDA is here")
def test_a_pycuda_that_is_not_there_is_a_fault():
    assert "No module named 'pycuda'" in install.fault_of_pycuda()
    assert install.cuda_of_pycuda() is None


@pytest.mark.gpu
def test_on_a_gpu_everything_is_of_one_cuda_release():
    assert install.missing() == ()
    assert install.fault_of_pycuda() is None
    assert install.driver_cuda() >= install.CUDA
    releases = [install.cuda_of_pycuda(), *(package.cuda for package in install.packages())]
    assert releases[0]
    assert {release.split(".")[0] for release in releases if release} == {str(install.CUDA[0])}
