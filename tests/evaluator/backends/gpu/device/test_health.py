"""What the driver says about GPUs, and why there is none: without a driver, on a stand-in, and on a real one."""

import os

import pytest

from evaluator.backends.gpu.device import health
from evaluator.backends.gpu.device.health import GpuProcess, device_state, driver_fault, gpus, lost, why_not
from evaluator.errors import GpuError, InfrastructureError

UUID = "GPU-11111111-2222-3333-4444-555555555555"
WITHOUT_DRIVER = pytest.mark.skipif(health._kernel_driver(health._ROOT) is not None, reason="there is a driver here")


def machine(root, nodes=(), kernel=None, on_bus=False):
    """A tree like the parts of `/` that tell about GPUs."""
    device = root / "sys/bus/pci/devices/0000:01:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x10de\n" if on_bus else "0x8086\n")
    (device / "class").write_text("0x030200\n")
    (root / "dev").mkdir()
    for name in nodes:
        (root / "dev" / name).touch()
    if kernel:
        (root / "proc/driver/nvidia").mkdir(parents=True)
        (root / "proc/driver/nvidia/version").write_text(
            f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {kernel}  Release Build\nGCC version: gcc 12\n"
        )
    return root


NODES = ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-caps")


@WITHOUT_DRIVER
class TestWithoutADriver:
    """NVML's own error path: pynvml looks for the driver's library and does not find it."""

    def test_there_are_no_gpus_and_nothing_is_broken(self):
        assert gpus() == ()
        assert lost() == ()
        absence = why_not()
        assert absence is not None
        assert absence.message == "no NVIDIA GPU on this machine"
        assert "make gpu" in absence.remedy
        assert not absence.broken

    def test_a_gpu_on_the_bus_wants_a_driver(self, tmp_path):
        absence = why_not(machine(tmp_path, on_bus=True))
        assert absence.broken
        assert "driver is not installed" in absence.message
        assert "580" in absence.remedy

    def test_a_container_without_gpus_sees_the_kernels_driver(self, tmp_path):
        absence = why_not(machine(tmp_path, on_bus=True, kernel="575.57.08"))
        assert absence.broken
        assert "575.57.08" in absence.message
        assert "--gpus all" in absence.remedy

    def test_asking_for_the_state_of_a_gpu_says_why_not(self):
        with pytest.raises(GpuError, match="no NVIDIA GPU on this machine") as raised:
            device_state(UUID)
        assert "make gpu" in raised.value.remedy
        assert isinstance(raised.value, InfrastructureError)

    def test_without_pynvml_nothing_is_raised(self, monkeypatch, tmp_path):
        monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
        health._nvml.cache_clear()
        assert gpus() == ()
        assert not why_not().broken
        absence = why_not(machine(tmp_path, on_bus=True))
        assert absence.message == "there is a GPU, but nvidia-ml-py is not installed"
        assert absence.remedy == "run `make gpu`"
        with pytest.raises(GpuError):
            device_state(UUID)


def test_a_gpu_is_described(driver):
    driver()
    (gpu,) = gpus()
    assert (gpu.index, gpu.uuid, gpu.name, gpu.arch) == (0, UUID, "NVIDIA H200", "sm_90")
    assert (gpu.memory_bytes, gpu.memory_free_bytes) == (150754820096, 150000000000)
    assert (gpu.driver_version, gpu.cuda_version) == ("580.159.04", (13, 0))
    assert (gpu.mig, gpu.compute_mode, gpu.persistence) == (False, "default", True)


def test_what_a_driver_cannot_say_is_none(driver):
    driver("mute")
    (gpu,) = gpus()
    assert gpu.mig is None
    assert gpu.persistence is None
    state = device_state(UUID)
    told = {name: value for name, value in vars(state).items() if value is not None}
    assert told == {"uuid": UUID}
    assert state.slowed_by == ()


def test_the_state_has_the_units_it_says(driver):
    driver()
    state = device_state(UUID)
    assert (state.sm_clock_mhz, state.sm_clock_max_mhz) == (1830, 1980)
    assert (state.memory_clock_mhz, state.memory_clock_max_mhz) == (3201, 3201)
    assert (state.temperature_celsius, state.power_watts, state.power_limit_watts) == (41, 123.456, 700.0)
    assert (state.ecc_uncorrected, state.utilisation_percent) == (0, 37)
    assert state.other_processes == ()
    assert state.clock_reasons == ("idle",)
    assert state.slowed_by == ()


def test_what_slows_a_gpu_down_is_said_in_words(driver):
    driver("hot")
    assert device_state(UUID).slowed_by == ("power limit", "too hot: hardware slowdown", "reason 0x8000")


def test_processes_of_others_are_told_from_our_own(driver):
    driver("shared")
    assert device_state(UUID).other_processes == (GpuProcess(4242, 1000000), GpuProcess(4243, None))
    assert device_state(UUID, own=[4242]).other_processes == (GpuProcess(4243, None),)


def test_a_lost_gpu_is_a_fault_and_named(driver, complete, tmp_path):
    driver("lost")
    assert gpus() == ()
    assert lost() == ("GPU 0 does not answer: GPU is lost (NVML error 15)",)
    with pytest.raises(GpuError, match="GPU is lost") as raised:
        device_state(UUID)
    assert "Xid" in raised.value.remedy
    absence = why_not(machine(tmp_path, NODES, "580.159.04"))
    assert absence.broken
    assert "GPU is lost" in absence.message


def test_a_gpu_that_is_not_there_is_a_fault(driver):
    driver()
    with pytest.raises(GpuError, match="GPU-0 does not answer"):
        device_state("GPU-0")


@pytest.mark.parametrize(
    ("wrong", "kernel", "message", "remedy"),
    [
        ("init=18", "570.86.10", "the driver's libraries are of another one", "restart the machine"),
        ("init=9", None, "its driver is not loaded", "modprobe nvidia"),
        ("init=999", "580.159.04", "NVML error 999", "nvidia-smi"),
        ("init=4", "580.159.04", "NVML error 4", "nvidia-smi"),
        ("count=0", "580.159.04", "lists no GPU", "Xid"),
        ("cuda=12040", "550.54.14", "serves CUDA up to 12.4, and `make gpu` installs CUDA 13.0", "580 or later"),
    ],
)
def test_each_reason_has_its_words_and_its_remedy(driver, complete, tmp_path, wrong, kernel, message, remedy):
    driver(wrong)
    absence = why_not(machine(tmp_path, NODES, kernel, on_bus=True))
    assert absence.broken
    assert message in absence.message
    assert remedy in absence.remedy


def test_a_whole_machine_has_no_reason(driver, complete, tmp_path):
    driver()
    assert why_not(machine(tmp_path, NODES, "580.159.04", on_bus=True)) is None


def test_packages_that_are_missing_are_named(driver, monkeypatch, tmp_path):
    driver()
    monkeypatch.setattr(health, "missing", lambda: ("pycuda", "torch"))
    absence = why_not(machine(tmp_path, NODES, "580.159.04"))
    assert absence.message.endswith("not installed: pycuda, torch")
    assert absence.remedy == "run `make gpu`"


def test_an_exclusive_gpu_has_no_room_for_two_contexts(driver, complete, tmp_path):
    driver("mode=3")
    root = machine(tmp_path, NODES, "580.159.04")
    assert driver_fault(root) is None
    absence = why_not(root)
    assert "compute mode is exclusive process" in absence.message
    assert f"nvidia-smi -i {UUID} -c DEFAULT" in absence.remedy


def test_unified_memorys_device_is_needed(driver, complete, tmp_path):
    driver()
    absence = why_not(machine(tmp_path, ("nvidia0", "nvidiactl"), "580.159.04"))
    assert "/dev/nvidia-uvm is missing" in absence.message
    assert "nvidia-modprobe" in absence.remedy


@pytest.mark.parametrize(
    ("closed", "named"),
    [
        (("nvidiactl",), "/dev/nvidiactl"),
        (("nvidia0", "nvidia1"), "/dev/nvidia0, /dev/nvidia1"),
        (("nvidia1",), None),  # somebody else's
    ],
)
def test_devices_that_this_user_may_not_open(driver, complete, tmp_path, monkeypatch, closed, named):
    driver()
    # The question is put to the kernel by its own name for "may I", which says yes to root whatever the mode is.
    asked = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path.name not in closed and asked(path, mode))
    absence = why_not(machine(tmp_path, NODES, "580.159.04"))
    assert (absence is None) if named is None else (f"may not open {named}" in absence.message)


def test_a_forked_process_asks_the_driver_anew(driver):
    driver()
    assert gpus()
    child = os.fork()
    if not child:
        before = health._nvml.cache_info().misses
        os._exit(0 if gpus() and health._nvml.cache_info().misses == before + 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.gpu
def test_a_real_gpu_says_all_this():
    assert why_not() is None
    for gpu in gpus():
        assert gpu.uuid.startswith("GPU-")
        assert gpu.arch[:3] == "sm_"
        assert 0 < gpu.memory_free_bytes <= gpu.memory_bytes
        assert gpu.cuda_version >= (13, 0)
        assert gpu.compute_mode == "default"
        state = device_state(gpu.uuid)
        assert 0 < state.sm_clock_mhz <= state.sm_clock_max_mhz
        assert 0 < state.memory_clock_mhz <= state.memory_clock_max_mhz
        assert 5 < state.temperature_celsius < 110
        assert 0 < state.power_watts < 2 * state.power_limit_watts
        assert state.clock_reasons is not None
        assert not any(reason.startswith("reason 0x") for reason in state.clock_reasons)
        assert state.utilisation_percent in range(101)
    with pytest.raises(GpuError, match="does not answer"):
        device_state("GPU-00000000-0000-0000-0000-000000000000")
