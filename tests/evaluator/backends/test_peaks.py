import dataclasses

import pytest

from common.contract import DeviceState
from evaluator.backends.peaks import peaks_of

# As the driver tells them: multiprocessors, boost clock of the data sheet, memory clock, bus width.
DEVICES = {
    "Tesla V100-SXM2-16GB": ("7.0", 80, 1530, 877, 4096),
    "Tesla T4": ("7.5", 40, 1590, 5001, 256),
    "NVIDIA A100-SXM4-40GB": ("8.0", 108, 1410, 1215, 5120),
    "NVIDIA A100-SXM4-80GB": ("8.0", 108, 1410, 1593, 5120),
    "NVIDIA A100 80GB PCIe": ("8.0", 108, 1410, 1512, 5120),
    "NVIDIA A40": ("8.6", 84, 1740, 7251, 384),
    "NVIDIA GeForce RTX 3090": ("8.6", 82, 1695, 9751, 384),
    "NVIDIA GeForce RTX 4090": ("8.9", 128, 2520, 10501, 384),
    "NVIDIA L4": ("8.9", 58, 2040, 6251, 192),
    "NVIDIA L40S": ("8.9", 142, 2520, 9001, 384),
    "NVIDIA H100 80GB HBM3": ("9.0", 132, 1830, 2619, 5120),
    "NVIDIA H100 PCIe": ("9.0", 114, 1620, 1593, 5120),
    "NVIDIA H200": ("9.0", 132, 1830, 3201, 6144),
    "NVIDIA B200": ("10.0", 148, 1860, 3996, 8192),
    "NVIDIA GeForce RTX 5090": ("12.0", 170, 2407, 14001, 512),
}


def device(name, shown=None):
    capability, multiprocessors, clock, memory_clock, bus = DEVICES[name]
    return DeviceState(
        name=shown or name,
        compute_capability=capability,
        multiprocessors=multiprocessors,
        max_sm_clock_mhz=clock,
        max_memory_clock_mhz=memory_clock,
        memory_bus_bits=bus,
    )


def rates(peaks):
    return {field.name: getattr(peaks, field.name) for field in dataclasses.fields(peaks) if field.name != "source"}


@pytest.mark.parametrize("name", DEVICES)
def test_the_data_sheet_and_the_arithmetic_agree(name):
    sheet = rates(peaks_of(DeviceState(name=name)))
    series = "NVIDIA GeForce unheard of" if "GeForce" in name else "NVIDIA unheard of"
    computed = rates(peaks_of(device(name, series)))
    for rate, value in sheet.items():
        # Boards with few float64 lanes have sheets that round them to one digit; H100's float32 boosts higher.
        tolerance = 0.1 if rate in ("fp64_tflops", "fp32_tflops") else 0.04
        assert computed[rate] == pytest.approx(value, rel=tolerance), rate


def test_a_device_above_its_sheet_counts_with_its_own_clock():
    fast = device("NVIDIA H200").model_copy(update={"max_sm_clock_mhz": 1980})
    # 132 multiprocessors x 4096 operations x 1.98 GHz = 1070.5; 2 x 3201 MHz x 6144 bits = 4917 GB/s.
    assert peaks_of(fast).fp16_tflops == pytest.approx(1070.5, abs=0.1)
    assert peaks_of(fast).memory_gb_s == pytest.approx(4916.7, abs=0.1)
    slow = fast.model_copy(update={"max_sm_clock_mhz": 345, "max_memory_clock_mhz": 1000})
    assert rates(peaks_of(slow)) == rates(peaks_of(DeviceState(name="NVIDIA H200")))


@pytest.mark.parametrize(
    "name", ["NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA L400", "", "H100"]
)
def test_another_chip_of_nearly_the_same_name_has_no_sheet(name):
    assert peaks_of(DeviceState(name=name)) is None


def test_a_generation_that_is_not_known_has_no_peaks():
    future = device("NVIDIA H200", "NVIDIA Unknown").model_copy(update={"compute_capability": "13.0"})
    assert peaks_of(future) is None
