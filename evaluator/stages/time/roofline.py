"""The least time that a problem can take on a device: its bytes and its arithmetic at the device's peaks."""

from dataclasses import dataclass

from common.wire import DType
from evaluator.backends.peaks import DevicePeaks
from evaluator.problems.problem import Problem, Work


@dataclass(frozen=True)
class Roofline:
    """What bounds the time of one problem at one size on one device from below."""

    work: Work
    precision: DType
    """In which the answer must be computed."""
    peaks: DevicePeaks

    @property
    def floor_us(self) -> float:
        """Beyond this no right answer is possible, microseconds.

        The inputs lie in memory, because the L2 cache was flushed, so they must be read; outputs may still be in the
        cache when the clock stops. The arithmetic may be done in the fastest way that keeps the precision.
        """
        return max(self._read_us, self._compute_us(self._fastest_tflops))

    @property
    def sol_us(self) -> float:
        """Speed of light, microseconds: all bytes through memory, and the arithmetic in the problem's precision."""
        moved = self.work.read_bytes + self.work.written_bytes
        return max(moved / (self.peaks.memory_gb_s * 1e3), self._compute_us(self._honest_tflops))

    def bandwidth_share(self, latency_us: float) -> float:
        """Bytes that must move, over the time, as a share of the peak; at most 1."""
        moved = self.work.read_bytes + self.work.written_bytes
        return min(moved / latency_us / (self.peaks.memory_gb_s * 1e3), 1.0)

    @property
    def reason(self) -> str:
        """The arithmetic of the floor, in words."""
        arithmetic = self._compute_us(self._fastest_tflops)
        if self._read_us >= arithmetic:
            return (
                f"{self.work.read_bytes:,} bytes of input must be read, which at {self.peaks.memory_gb_s:,.0f} GB/s "
                f"takes {self._read_us:.4g} us ({self.peaks.source})"
            )
        return (
            f"{self.work.flops:,} floating-point operations must be done, which at {self._fastest_tflops:,.4g} "
            f"TFLOPS, the fastest way that keeps {self.precision}'s precision, takes {arithmetic:.4g} us "
            f"({self.peaks.source})"
        )

    @property
    def _read_us(self) -> float:
        return self.work.read_bytes / (self.peaks.memory_gb_s * 1e3)

    def _compute_us(self, tflops: float) -> float:
        return self.work.flops / (tflops * 1e6)

    @property
    def _fastest_tflops(self) -> float:
        """By tensor cores from parts of numbers, where that is faster than the ordinary lanes.

        float32 from three products of TF32 or of scaled float16 halves: Ootomo and Yokota, "Recovering single
        precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak performance" (2022). float64
        from 28 products of int8, at twice float16's rate: Ootomo, Ozaki and Yokota, "DGEMM on integer matrix
        multiplication unit" (2024).
        """
        peaks = self.peaks
        if self.precision is DType.FLOAT64:
            return max(peaks.fp64_tflops, peaks.fp16_fastest_tflops / 14)
        if self.precision is DType.FLOAT32:
            return max(peaks.fp32_tflops, peaks.tf32_tflops / 3, peaks.fp16_tflops / 3)
        return max(peaks.fp32_tflops, peaks.bf16_tflops, peaks.fp16_fastest_tflops)

    @property
    def _honest_tflops(self) -> float:
        peaks = self.peaks
        own = {
            DType.FLOAT64: peaks.fp64_tflops,
            DType.FLOAT16: peaks.fp16_tflops,
            DType.BFLOAT16: peaks.bf16_tflops,
        }
        return own.get(self.precision) or peaks.fp32_tflops


def precision_of(problem: Problem) -> DType:
    """The narrowest floating-point type among a problem's tensors; int8 where all are integers.

    The narrowest, because a bound from below must admit the fastest arithmetic that may be right.
    """
    types = [tensor.dtype for tensor in (*problem.inputs, *problem.outputs) if tensor.dtype.is_float]
    return min(types, key=lambda dtype: dtype.size_bytes, default=DType.INT8)
