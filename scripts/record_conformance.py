"""Runs the forms of a bundle on a GPU and writes what they leave: `python record_conformance.py BUNDLE OUT`.

`python -m conformance bundle` (tests/evaluator/backends/sim) makes the bundle: cubins with a kernel each, which is
called `k(inputs, results)`, and the inputs. This file needs Python and the driver, nothing else. A child process runs
the kernels; one that takes too long or faults costs that kernel alone, because another child goes on behind it.
"""

import ctypes
import json
import lzma
import select
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

_TIME_LIMIT_S = 30
_Pointer = ctypes.c_uint64


class _Driver:
    """The few calls of the driver's interface that it takes."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.device = device

    def call(self, name: str, *arguments: object) -> None:
        """One call, whose failure is an error."""
        status = getattr(self._library, name)(*arguments)
        if status:
            raise RuntimeError(f"{name}: CUDA error {status}")

    def name(self) -> str:
        """The GPU's."""
        text = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", text, 256, self.device)
        return text.value.decode()

    def version(self) -> int:
        """The newest version of CUDA that the driver knows, as 13000 for 13.0."""
        number = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(number))
        return number.value

    def run(self, cubin: bytes, inputs: bytes, result_bytes: int, blocks: int, threads: int, poison: int) -> bytes:
        """Load a cubin, launch its kernel once and give back its results."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), cubin)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, b"k")
        places = (_Pointer(), _Pointer())
        for place, size in zip(places, (max(len(inputs), 16), result_bytes), strict=True):
            self.call("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(size))
        self.call("cuMemcpyHtoD_v2", places[0], inputs, ctypes.c_size_t(len(inputs)))
        self.call("cuMemsetD8_v2", places[1], ctypes.c_ubyte(poison), ctypes.c_size_t(result_bytes))
        arguments = (ctypes.c_void_p * 2)(*(ctypes.addressof(place) for place in places))
        self.call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, None, arguments, None)
        self.call("cuCtxSynchronize")
        results = ctypes.create_string_buffer(result_bytes)
        self.call("cuMemcpyDtoH_v2", results, places[1], ctypes.c_size_t(result_bytes))
        for place in places:
            self.call("cuMemFree_v2", place)
        self.call("cuModuleUnload", module)
        return results.raw


def _run_all(bundle: Path, kept: Path) -> None:
    """The child: runs the kernels whose numbers come on the standard input, and says so of each."""
    description = json.loads((bundle / "bundle.json").read_text())
    inputs = lzma.decompress((bundle / "inputs.xz").read_bytes())
    driver = _Driver()
    facts = {"gpu": driver.name(), "cuda_of_driver": driver.version()}
    print("ready " + json.dumps(facts), flush=True)
    for line in sys.stdin:
        number = int(line)
        one = description["kernels"][number]
        own = inputs[one["inputs_at"] : one["inputs_at"] + one["input_bytes"]]
        cubin = (bundle / f"{number}.cubin").read_bytes()
        try:
            found = driver.run(
                cubin, own, one["result_bytes"], one["blocks"], one["block_threads"], description["poison"]
            )
        except RuntimeError as error:
            print(f"failed {error}", flush=True)
            return
        (kept / f"{number}.bin").write_bytes(found)
        print("done", flush=True)


class _Child:
    """A child process, asked kernel by kernel."""

    def __init__(self, bundle: Path, kept: Path) -> None:
        command = [sys.executable, __file__, "--child", str(bundle), str(kept)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        word, _, rest = self._answer().partition(" ")
        if word != "ready":
            raise SystemExit(f"no GPU answers: {word} {rest}")
        self.facts = json.loads(rest)

    def ask(self, number: int) -> str:
        """Run one kernel: `done`, or why not."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{number}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _TIME_LIMIT_S)
        return self._process.stdout.readline().strip() if ready else f"failed no answer in {_TIME_LIMIT_S} s"

    def end(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.communicate()


def _driver_version() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "-i", "0"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    """Run all, and write `results.xz` (the kernels' results one behind the other) and `results.json`."""
    if sys.argv[1] == "--child":
        _run_all(Path(sys.argv[2]), Path(sys.argv[3]))
        return
    bundle, out = map(Path, sys.argv[1:3])
    kept = out / "kept"
    kept.mkdir(parents=True, exist_ok=True)
    description = json.loads((bundle / "bundle.json").read_text())
    child = _Child(bundle, kept)
    failed: dict[int, str] = {}
    for number in range(len(description["kernels"])):
        answer = child.ask(number)
        if answer != "done":
            failed[number] = answer.removeprefix("failed ")
            child.end()
            child = _Child(bundle, kept)
    child.end()
    facts = child.facts | {
        "driver": _driver_version(),
        "date": datetime.now(UTC).date().isoformat(),
        "bundle": description["digest"],
        "failed": failed,
    }
    parts = []
    for number, one in enumerate(description["kernels"]):
        path = kept / f"{number}.bin"
        parts.append(path.read_bytes() if path.exists() else bytes(one["result_bytes"]))
        path.unlink(missing_ok=True)
    kept.rmdir()
    (out / "results.xz").write_bytes(lzma.compress(b"".join(parts), preset=1))
    (out / "results.json").write_text(json.dumps(facts, indent=1) + "\n")
    print(f"{len(parts) - len(failed)} of {len(parts)} kernels on {facts['gpu']}, driver {facts['driver']}")
    for number, reason in failed.items():
        print(f"kernel {number}: {reason}")


if __name__ == "__main__":
    main()
