"""What a GPU can do at most: bytes from memory and floating-point operations, in each second.

Two sources. The maker's data sheets, for common devices by name: dense rates, or half of the rates with sparsity.
And arithmetic from what the driver tells: multiprocessors x clock x operations in each clock, and bus width x
memory clock x 2. Of both the larger counts, because a peak bounds a time from below: it must not be too small on a
device that runs above its sheet's clock.
"""

import re
from dataclasses import dataclass, fields

from common.contract import DeviceState


@dataclass(frozen=True)
class DevicePeaks:
    """Peak rates, dense. A rate of 0: the device has no such unit."""

    source: str
    memory_gb_s: float
    """10^9 bytes a second between the chip and its memory."""
    fp64_tflops: float
    """10^12 operations a second (a fused multiply-add is two), tensor cores included."""
    fp32_tflops: float
    """By the ordinary lanes, to float32's full precision."""
    tf32_tflops: float
    bf16_tflops: float
    fp16_tflops: float
    """By tensor cores, with sums in float32."""
    fp16_fastest_tflops: float
    """By tensor cores, with sums in whatever is fastest."""


# Data sheets and architecture white papers of NVIDIA: V100 (2017), T4 (2018), A100 (r4, 2022), A10, A30, A40 (2021),
# GA102 (v2), H100 (2023, and white paper v1.04), H200 (2024), L4 and L40S (2023), Ada GPU architecture (v2),
# RTX Blackwell GPU architecture (v1.1), HGX B200 (2024).
_SHEETS: dict[str, tuple[float, ...]] = {
    # memory, fp64, fp32, tf32, bf16, fp16 with sums in float32, fp16 at its fastest
    r"V100-SXM2-(16|32)GB": (900, 7.8, 15.7, 0, 0, 125, 125),
    r"T4": (320, 0.25, 8.1, 0, 0, 65, 65),
    r"A100-(SXM4|PCIE)-40GB": (1555, 19.5, 19.5, 156, 312, 312, 312),
    r"A100-SXM4-80GB": (2039, 19.5, 19.5, 156, 312, 312, 312),
    r"A100 80GB PCIe": (1935, 19.5, 19.5, 156, 312, 312, 312),
    r"A30": (933, 10.3, 10.3, 82, 165, 165, 165),
    r"A10": (600, 0.49, 31.2, 62.5, 125, 125, 125),
    r"A40": (696, 0.58, 37.4, 74.8, 149.7, 149.7, 149.7),
    r"GeForce RTX 3090": (936, 0.56, 35.6, 35.6, 71.2, 71.2, 142.3),
    r"GeForce RTX 4090": (1008, 1.29, 82.6, 82.6, 165.2, 165.2, 330.3),
    r"GeForce RTX 5090": (1792, 1.64, 104.8, 104.8, 209.5, 209.5, 419),
    r"L4": (300, 0.47, 30.3, 60, 121, 121, 121),
    r"L40S": (864, 1.41, 91.6, 183, 366, 366, 366),
    r"H100 PCIe": (2039, 51.2, 51.2, 378, 756, 756, 756),
    r"H100 NVL": (3938, 60, 60, 417.5, 835.5, 835.5, 835.5),
    r"H100 80GB HBM3": (3350, 67, 67, 494.7, 989.4, 989.4, 989.4),
    r"H200": (4800, 67, 67, 494.7, 989.4, 989.4, 989.4),
    r"B200": (8000, 37, 75, 1125, 2250, 2250, 2250),
}

# Operations in each clock of a multiprocessor: fp64, fp32, tf32, bf16, fp16. CUDA C++ Programming Guide 13.0, table
# "Throughput of Native Arithmetic Instructions", and for tensor cores the white papers above.
_EACH_CLOCK: dict[str, tuple[int, int, int, int, int]] = {
    "7.0": (64, 128, 0, 0, 1024),
    "7.5": (4, 128, 0, 0, 1024),
    "8.0": (128, 128, 1024, 2048, 2048),
    "8.6": (4, 256, 512, 1024, 1024),
    "8.9": (4, 256, 512, 1024, 1024),
    "9.0": (256, 256, 2048, 4096, 4096),
    "10.0": (128, 256, 4096, 8192, 8192),
    "12.0": (4, 256, 512, 1024, 1024),
}


def peaks_of(device: DeviceState) -> DevicePeaks | None:
    """The peaks of a device, or None for one that has no data sheet here and does not tell enough of itself."""
    known = [peaks for peaks in (_from_sheet(device.name), _from_driver(device)) if peaks]
    if not known:
        return None
    rates = [field.name for field in fields(DevicePeaks) if field.name != "source"]
    return DevicePeaks(
        " and ".join(peaks.source for peaks in known),
        **{rate: max(getattr(peaks, rate) for peaks in known) for rate in rates},
    )


def _from_sheet(name: str) -> DevicePeaks | None:
    # The whole name must fit: a laptop's RTX 4090 is another chip, and a MIG slice a part of one.
    model = re.sub(r"^(NVIDIA|Tesla|NVIDIA Tesla) ", "", name)
    found = [rates for pattern, rates in _SHEETS.items() if re.fullmatch(pattern, model)]
    return DevicePeaks(f"data sheet of {model}", *found[0]) if found else None


def _from_driver(device: DeviceState) -> DevicePeaks | None:
    each_clock = _EACH_CLOCK.get(device.compute_capability or "")
    if not (each_clock and device.multiprocessors and device.max_sm_clock_mhz):
        return None
    if not (device.memory_bus_bits and device.max_memory_clock_mhz):
        return None
    scale = device.multiprocessors * device.max_sm_clock_mhz * 1e-6
    fp64, fp32, tf32, bf16, fp16 = (operations * scale for operations in each_clock)
    # Consumer boards halve the tensor cores where they add in float32.
    share = 0.5 if "GeForce" in device.name and device.compute_capability != "7.0" else 1.0
    return DevicePeaks(
        source=f"{device.multiprocessors} multiprocessors at {device.max_sm_clock_mhz} MHz",
        memory_gb_s=2 * device.max_memory_clock_mhz * device.memory_bus_bits / 8e3,
        fp64_tflops=fp64,
        fp32_tflops=fp32,
        tf32_tflops=tf32 * share,
        bf16_tflops=bf16 * share,
        fp16_tflops=fp16 * share,
        fp16_fastest_tflops=fp16,
    )
