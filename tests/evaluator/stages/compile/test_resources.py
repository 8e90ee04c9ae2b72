import subprocess

import pytest

from common.contract import KernelResources
from evaluator.stages.compile.resources import occupancy, parse_resources
from evaluator.stages.compile.toolchain import find_toolchain


def kernel(registers: int = 32, shared_bytes: int = 0) -> KernelResources:
    return KernelResources(
        kernel="k()",
        registers=registers,
        spill_store_bytes=0,
        spill_load_bytes=0,
        stack_bytes=0,
        shared_bytes=shared_bytes,
        constant_bytes=0,
        barriers=0,
    )


REPORT = """\
ptxas info    : 24 bytes gmem
ptxas info    : Compiling entry function '_Z5scalePfi' for 'sm_80'
ptxas info    : Function properties for _Z5scalePfi
    32 bytes stack frame, 48 bytes spill stores, 52 bytes spill loads
ptxas info    : Function properties for _Z2sqf
    8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 40 bytes cumulative stack size, 4096 bytes smem, 360 bytes cmem[0], 8 bytes cmem[2]
ptxas info    : Compile time = 10.1 ms
ptxas info    : Compiling entry function 'plain' for 'sm_80'
ptxas info    : Function properties for plain
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 4 registers, used 0 barriers, 352 bytes cmem[0]
"""  # noqa: E501


def test_report_of_ptxas():
    first, second = parse_resources(REPORT)
    assert first == KernelResources(
        kernel="scale(float*, int)",
        registers=40,
        spill_store_bytes=48,
        spill_load_bytes=52,
        stack_bytes=40,
        shared_bytes=4096,
        constant_bytes=368,
        barriers=1,
    )
    assert (second.kernel, second.registers, second.shared_bytes) == ("plain", 4, 0)
    assert parse_resources("") == ()


@pytest.mark.parametrize(
    ("arch", "registers", "block", "shared", "warps", "limiter"),
    [
        # Known values of NVIDIA's occupancy calculator.
        ("sm_80", 32, 256, 0, 64, "threads"),
        ("sm_80", 40, 256, 0, 48, "registers"),
        ("sm_80", 64, 256, 0, 32, "registers"),
        ("sm_80", 128, 1024, 0, 0, "registers"),
        ("sm_80", 32, 32, 0, 32, "blocks"),
        ("sm_80", 32, 256, 49152, 24, "shared memory"),
        ("sm_86", 32, 256, 0, 48, "threads"),
        ("sm_86", 32, 1024, 0, 32, "threads"),
        ("sm_89", 32, 32, 0, 24, "blocks"),
        ("sm_90a", 32, 128, 232448, 4, "shared memory"),
        ("sm_75", 32, 256, 0, 32, "threads"),
        ("sm_120", 64, 256, 0, 32, "registers"),
    ],
)
def test_known_occupancies(arch, registers, block, shared, warps, limiter):
    found = occupancy(kernel(registers), block, shared, arch)
    assert (found.active_warps, found.limited_by) == (warps, limiter)
    assert found.occupancy == warps / found.max_warps


def test_static_and_dynamic_shared_memory_add_up():
    found = occupancy(kernel(shared_bytes=40000), 128, 10000, "sm_80")
    assert found.shared_bytes == 50000
    assert found.active_warps == 3 * 4


def test_unknown_architecture():
    with pytest.raises(KeyError):
        occupancy(kernel(), 256, 0, "sm_999")


# Compute capability; threads, shared memory and registers of a multiprocessor and of a block; reserved: what a driver
# reports.
DEVICES = {
    50: (2048, 65536, 49152, 65536, 0),
    52: (2048, 98304, 49152, 65536, 0),
    53: (2048, 65536, 49152, 32768, 0),
    60: (2048, 65536, 49152, 65536, 0),
    61: (2048, 98304, 49152, 65536, 0),
    62: (2048, 65536, 49152, 32768, 0),
    70: (2048, 98304, 98304, 65536, 0),
    72: (2048, 98304, 98304, 65536, 0),
    75: (1024, 65536, 65536, 65536, 0),
    80: (2048, 167936, 166912, 65536, 1024),
    86: (1536, 102400, 101376, 65536, 1024),
    87: (1536, 167936, 166912, 65536, 1024),
    88: (1536, 102400, 101376, 65536, 1024),
    89: (1536, 102400, 101376, 65536, 1024),
    90: (2048, 233472, 232448, 65536, 1024),
    100: (2048, 233472, 232448, 65536, 1024),
    101: (1536, 233472, 232448, 65536, 1024),
    103: (2048, 233472, 232448, 65536, 1024),
    110: (1536, 233472, 232448, 65536, 1024),
    120: (1536, 102400, 101376, 65536, 1024),
    121: (1536, 102400, 101376, 65536, 1024),
}

ORACLE = """
#include <cstdio>
#include <cuda_occupancy.h>
int main() {
  int cc, threads, shared_sm, shared_block, registers_block, reserved;
  while (scanf("%d %d %d %d %d %d", &cc, &threads, &shared_sm, &shared_block, &registers_block, &reserved) == 6)
    for (int registers = 16; registers <= 255; registers += 13)
      for (int block = 32; block <= 1024; block += 96)
        for (int shared = 0; shared <= shared_block; shared += 9000) {
          cudaOccDeviceProp device;
          device.computeMajor = cc / 10; device.computeMinor = cc % 10;
          device.maxThreadsPerBlock = 1024; device.maxThreadsPerMultiprocessor = threads;
          device.regsPerBlock = registers_block; device.regsPerMultiprocessor = 65536; device.warpSize = 32;
          device.sharedMemPerBlock = 49152; device.sharedMemPerMultiprocessor = shared_sm; device.numSms = 1;
          device.sharedMemPerBlockOptin = shared_block; device.reservedSharedMemPerBlock = reserved;
          cudaOccFuncAttributes function;
          function.maxThreadsPerBlock = 1024; function.numRegs = registers; function.sharedSizeBytes = 0;
          function.partitionedGCConfig = PARTITIONED_GC_OFF; function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
          function.maxDynamicSharedSizeBytes = shared_block; function.numBlockBarriers = 1;
          cudaOccDeviceState state;
          cudaOccResult result;
          if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, block, shared)) return 1;
          printf("%d %d %d %d %d\\n", cc, registers, block, shared, result.activeBlocksPerMultiprocessor);
        }
}
"""


def test_agreement_with_the_toolkits_own_calculator(tmp_path):
    found = find_toolchain()
    folder = next((folder for folder in found.headers if (folder / "cuda_occupancy.h").is_file()), None)
    assert folder is not None
    (tmp_path / "oracle.cpp").write_text(ORACLE)
    program = tmp_path / "oracle"
    subprocess.run([found.host_compiler, f"-I{folder}", "-o", program, tmp_path / "oracle.cpp"], check=True)
    asked = "\n".join(f"{cc} {' '.join(map(str, facts))}" for cc, facts in DEVICES.items())
    answers = subprocess.run([program], input=asked, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(answers) > 5000
    wrong = []
    for answer in answers:
        cc, registers, block, shared, blocks = map(int, answer.split())
        ours = occupancy(kernel(registers), block, shared, f"sm_{cc}").active_warps // -(-block // 32)
        if ours != blocks:
            wrong.append((answer, ours))
    assert not wrong, wrong[:5]
