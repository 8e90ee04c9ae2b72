"""What the doctor finds on this machine, and on one where something is broken."""

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from evaluator.backends.gpu.device import health
from evaluator.backends.gpu.device.install import Package
from evaluator.backends.sim.backend import Simulator
from evaluator.cli import doctor
from evaluator.cli.doctor import examine
from evaluator.installation import install_command
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.catalogue import problems
from evaluator.settings import MachineSettings
from evaluator.stages.lift.triton.triton_package import find_triton


def found(toolbox):
    return {finding.name: finding for finding in examine(toolbox)}


def test_a_healthy_machine(toolbox):
    findings = found(toolbox)
    assert list(findings)[:5] == ["assay", "compiler", "sandbox", "data folder", "simulator"]
    assert list(findings)[5].startswith("GPU")
    assert not [finding for finding in findings.values() if finding.ok is False]
    assert findings["simulator"].ok is True
    assert str(len(problems())) in findings["assay"].detail
    assert toolbox.toolchain.version in findings["compiler"].detail
    assert toolbox.sandbox.name in findings["sandbox"].detail
    assert findings["references"].ok is True
    assert "carried out a file of KernelBench's form" in findings["references"].detail
    assert findings["triton"].ok is True
    assert "compiled a kernel" in findings["triton"].detail
    assert ("needs a GPU" in findings["host tier"].detail) == (not health.gpus())


def test_where_there_is_no_triton_it_says_what_installs_it(toolbox, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    find_triton.cache_clear()
    told = doctor._triton(toolbox)
    assert told.ok is None
    # Nothing was submitted: there is no source, and no reward to speak of.
    assert told.detail == "Triton is not installed: kernels written in it cannot be graded"
    assert told.remedy == f"Run `{install_command('triton')}`."


def test_where_files_of_others_cannot_be_graded_it_says_why(toolbox, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    told = doctor._references(toolbox)
    assert (told.ok, told.remedy) == (None, "pip install 'assay[references]'")
    assert "PyTorch, which is not installed" in told.detail


def test_a_data_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "data").write_text("a file")
    findings = found(Toolbox(MachineSettings(tmp_path / "data")))
    assert findings["compiler"].ok is True
    for name in ("sandbox", "data folder", "simulator"):
        assert findings[name].ok is False
        assert "ASSAY_DATA_DIR" in findings[name].remedy


def test_a_simulator_that_cannot_be_built(tmp_path):
    toolbox = Toolbox(MachineSettings(tmp_path / "data"))
    toolbox.simulator = Simulator(toolbox.sandbox, toolbox.cache, Path("/bin/false"))
    findings = found(toolbox)
    assert findings["simulator"].ok is False
    assert findings["simulator"].remedy
    assert findings["data folder"].ok is not None


# A service


def service_lines(toolbox):
    return {finding.name: finding for finding in doctor._service(toolbox)}


@pytest.fixture
def unset(monkeypatch):
    for name in [name for name in os.environ if name.startswith(("ASSAY_", "DOCKER_"))]:
        monkeypatch.delenv(name)


@pytest.fixture
def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


def test_no_service_is_two_calm_lines(toolbox, unset, monkeypatch, free_port):
    monkeypatch.setenv("ASSAY_PORT", str(free_port))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    lines = service_lines(toolbox)
    assert list(lines) == ["service", "Docker"]
    assert [line.ok for line in lines.values()] == [None, None]
    assert f"none runs at http://127.0.0.1:{free_port}" in lines["service"].detail
    assert "needs neither Redis nor a database server" in lines["service"].detail
    assert "no daemon answers at /nowhere/docker.sock" in lines["Docker"].detail


def test_a_service_that_runs_is_found(toolbox, unset, monkeypatch, tmp_path):
    command = [sys.executable, "-m", "evaluator", "serve", "--port", "0", "--workers", "0"]
    environment = {**os.environ, "ASSAY_DATA_DIR": str(tmp_path)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as running:
        try:
            monkeypatch.setenv("ASSAY_PORT", re.search(r":([0-9]+)$", running.stdout.readline().strip())[1])
            line = service_lines(toolbox)["service"]
        finally:
            running.terminate()
    assert line.ok is False, "nobody works for it"
    assert re.search(r"Assay \S+ runs at http://127.0.0.1:[0-9]+, and is not ready: .*worker", line.detail)


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n[17]"])
def test_another_program_on_the_port_is_told(toolbox, unset, monkeypatch, answer):
    with socket.create_server(("127.0.0.1", 0)) as other:

        def serve():
            connection, _ = other.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        monkeypatch.setenv("ASSAY_PORT", str(other.getsockname()[1]))
        line = service_lines(toolbox)["service"]
    assert line.ok is None
    assert "another program has the port" in line.detail
    assert "--port 0" in line.remedy


def test_a_docker_daemon_is_found_by_its_socket(toolbox, unset, monkeypatch, tmp_path):
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(str(tmp_path / "d.sock"))
        daemon.listen()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/d.sock")
        assert "a daemon answers" in service_lines(toolbox)["Docker"].detail
    monkeypatch.setenv("DOCKER_HOST", "tcp://elsewhere:2376")
    assert "tcp://elsewhere:2376" in service_lines(toolbox)["Docker"].detail


def test_a_database_that_is_set_is_asked(toolbox, unset, monkeypatch, tmp_path, free_port):
    monkeypatch.setenv("ASSAY_DATABASE_URL", f"sqlite:///{tmp_path}/assay.db")
    assert service_lines(toolbox)["database"].ok is True
    monkeypatch.setenv("ASSAY_DATABASE_URL", f"postgresql://ann:a-secret@127.0.0.1:{free_port}/assay")
    line = service_lines(toolbox)["database"]
    assert line.ok is False
    assert line.remedy
    assert "a-secret" not in line.detail
    monkeypatch.setenv("ASSAY_DATABASE_URL", "nonsense")
    assert service_lines(toolbox)["database"].ok is False


def test_a_redis_that_is_set_is_asked(toolbox, unset, monkeypatch, free_port):
    if shutil.which("redis-server") is None:
        assert not os.environ.get("CI"), "CI must have redis-server"
        pytest.skip("redis-server is not here")
    monkeypatch.setenv("ASSAY_BROKER_URL", f"redis://:a-secret@127.0.0.1:{free_port}/0")
    line = service_lines(toolbox)["Redis"]
    assert line.ok is False
    assert "a-secret" not in line.detail
    assert "ASSAY_BROKER_URL" in line.remedy
    command = [
        "redis-server",
        "--port",
        str(free_port),
        "--bind",
        "127.0.0.1",
        "--requirepass",
        "a-secret",
        "--save",
        "",
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as running:
        try:
            until_s = time.monotonic() + 15
            while not (line := service_lines(toolbox)["Redis"]).ok and time.monotonic() < until_s:
                time.sleep(0.05)
            assert line.ok is True, line.detail
            monkeypatch.setenv("ASSAY_BROKER_URL", f"redis://:wrong@127.0.0.1:{free_port}/0")
            assert service_lines(toolbox)["Redis"].ok is False
        finally:
            running.terminate()


# A GPU

PACKAGES = (
    ("pycuda", "2026.1", None),
    ("torch", "2.13.0", "13.0"),
    ("cuda-bindings", "13.5.0", "13.5"),
    ("nvidia-ml-py", "13.615.71", None),
)


def gpu_lines(toolbox):
    return {finding.name: finding for finding in doctor._gpu(toolbox)}


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine whose devices are all there and on which `make gpu` has been run; `driver` says how its GPU is."""
    (tmp_path / "dev").mkdir()
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
        (tmp_path / "dev" / name).touch()
    monkeypatch.setattr(doctor, "driver_fault", lambda: health.driver_fault(tmp_path))
    monkeypatch.setattr(doctor, "packages", lambda: tuple(Package(*one) for one in PACKAGES))
    monkeypatch.setattr(doctor, "cuda_of_pycuda", lambda: "13.0")
    monkeypatch.setattr(doctor, "fault_of_pycuda", lambda: None)


def test_no_gpu_is_one_calm_line(toolbox):
    if health.gpus():
        pytest.skip("there is a GPU here")
    (line,) = gpu_lines(toolbox).values()
    assert line.ok is None
    assert line.detail == "no NVIDIA GPU on this machine: kernels run on the simulator, untimed"
    assert "make gpu" in line.remedy


def test_a_gpu_without_its_driver_is_broken(toolbox, monkeypatch):
    fault = health.GpuAbsence("there is an NVIDIA GPU, but its driver is not loaded", "sudo modprobe nvidia", True)
    monkeypatch.setattr(doctor, "gpus", tuple)
    monkeypatch.setattr(doctor, "driver_fault", lambda: fault)
    (line,) = gpu_lines(toolbox).values()
    assert line.ok is False
    assert "kernels run on the simulator" in line.detail
    assert line.remedy == "sudo modprobe nvidia"


def test_a_gpu_in_order(toolbox, driver, machine):
    driver()
    lines = gpu_lines(toolbox)
    always = ["GPU driver", "GPU 0", "GPU access", "GPU packages", "GPU compiler", "GPU referee"]
    optional = ["host tier", "GPU profiler", "GPU checker", "containers"]
    assert list(lines) == [*always, *optional]
    # The driver is a stand-in's, with nothing behind it that a referee could really start on.
    assert {name for name, line in lines.items() if not line.ok} <= {"GPU referee", *optional}
    assert [name for name, line in lines.items() if line.ok is False] == ["GPU referee"]
    assert lines["GPU driver"].detail == "580.159.04, serves CUDA 13.0"
    for fact in ("NVIDIA H200", "sm_90", "140 GiB", "1830 of 1980 MHz", "41 °C", "never changes"):
        assert fact in lines["GPU 0"].detail
    assert "pycuda 2026.1 (CUDA 13.0), torch 2.13.0 (CUDA 13.0)" in lines["GPU packages"].detail
    assert toolbox.toolchain.label in lines["GPU compiler"].detail


@pytest.mark.parametrize(
    ("wrong", "name", "detail", "remedy"),
    [
        ("mode=3", "GPU 0", "compute mode is exclusive process", "-c DEFAULT"),
        ("ecc=2", "GPU 0", "ECC found 2 errors", "replaced"),
        ("cuda=12040", "GPU access", "serves CUDA up to 12.4", "580"),
        ("lost", "GPU", "GPU is lost", "Xid"),
    ],
)
def test_a_gpu_out_of_order(toolbox, driver, machine, wrong, name, detail, remedy):
    driver(wrong)
    line = gpu_lines(toolbox)[name]
    assert line.ok is False
    assert detail in line.detail
    assert remedy in line.remedy


@pytest.mark.parametrize(
    ("name", "version", "cuda", "said"),
    [
        ("torch", None, None, "no torch"),
        ("torch", "2.13.0+cpu", "none", "the build without CUDA"),
        ("torch", "2.8.0", "12.8", "different CUDA releases"),
        ("cuda-bindings", "12.9.4", "12.9", "different CUDA releases"),
    ],
)
def test_packages_that_do_not_fit(machine, monkeypatch, name, version, cuda, said):
    others = [one for one in PACKAGES if one[0] != name]
    monkeypatch.setattr(doctor, "packages", lambda: tuple(Package(*one) for one in (*others, (name, version, cuda))))
    line = doctor._gpu_packages()
    assert line.ok is False
    assert said in line.detail
    assert "make gpu" in line.remedy


def test_a_pycuda_that_cannot_be_loaded(machine, monkeypatch):
    monkeypatch.setattr(doctor, "fault_of_pycuda", lambda: "ImportError: undefined symbol: cuCtxCreate_v9")
    line = doctor._gpu_packages()
    assert line.ok is False
    assert "cuCtxCreate_v9" in line.detail
    assert "make gpu" in line.remedy


def test_a_gpu_that_the_compiler_does_not_know(toolbox):
    gpu = health.Gpu(0, "GPU-1", "Tesla K80", "sm_37", 1, 1, "470", (11, 4), None, "default", None)
    line = doctor._gpu_compiler(toolbox, (gpu,))
    assert line.ok is False
    assert "sm_37" in line.detail
    assert "ASSAY_NVCC" in line.remedy


def test_the_profiler_and_the_checker_are_named_with_what_they_lack(monkeypatch, tmp_path):
    for variable in ("ASSAY_NCU", "ASSAY_COMPUTE_SANITIZER"):
        monkeypatch.setenv(variable, str(tmp_path / "none"))
    profiler, checker = doctor._profiler(tmp_path), doctor._sanitizer()
    assert profiler.ok is checker.ok is None
    assert "there is no ncu on this machine" in profiler.detail
    assert "ASSAY_NCU" in profiler.remedy
    assert "pip install nvidia-cuda-sanitizer-api" in checker.remedy
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    for variable in ("ASSAY_NCU", "ASSAY_COMPUTE_SANITIZER"):
        monkeypatch.setenv(variable, str(tool))
    assert doctor._profiler(tmp_path).ok is doctor._sanitizer().ok is True
    params = tmp_path / "proc/driver/nvidia/params"
    params.parent.mkdir(parents=True)
    params.write_text("RmProfilingAdminOnly: 1\n")
    assert doctor._profiler(tmp_path).ok is None
    assert "ERR_NVGPUCTRPERM" in doctor._profiler(tmp_path).detail


def test_containers_are_not_needed(monkeypatch, tmp_path):
    programs = {"docker": "/usr/bin/docker"}
    monkeypatch.setattr(doctor.shutil, "which", programs.get)
    assert "nvidia-container-toolkit" in doctor._containers(tmp_path).remedy
    programs["nvidia-ctk"] = "/usr/bin/nvidia-ctk"
    assert "nvidia-ctk runtime configure" in doctor._containers(tmp_path).remedy
    (tmp_path / "etc/docker").mkdir(parents=True)
    (tmp_path / "etc/docker/daemon.json").write_text('{"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}')
    assert doctor._containers(tmp_path).ok is True
    programs.clear()
    assert doctor._containers(tmp_path) == doctor.HealthCheck(
        "containers", None, "no Docker here, and Assay needs none"
    )


@pytest.mark.gpu
def test_a_real_gpu_in_order(toolbox):
    lines = gpu_lines(toolbox)
    assert list(lines)[:2] == ["GPU driver", "GPU 0"]
    assert not [name for name, line in lines.items() if line.ok is False]
