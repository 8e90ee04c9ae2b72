// problem: matmul_f16
// class: schedule
// race: barrier
// must: anything but passed
// why: two warps split the depth; the second arrives at the named barrier before it has stored its sums, the first syncs and adds what may not be there
// proof: bar.arrive orders what comes before it; the stores come after
// assay: launch mm grid=(ceil_div(n, 8), ceil_div(m, 4)) block=(64) args=(a, b, c, m, n, k)
#include <cuda_fp16.h>

__global__ void mm(const __half* a, const __half* b, __half* c, int m, int n, int k)
{
    __shared__ float other[32];
    const int lane = threadIdx.x & 31, second = threadIdx.x >> 5;
    const int row = blockIdx.y * 4 + lane / 8, col = blockIdx.x * 8 + lane % 8;
    const bool here = row < m && col < n;
    float s = 0.0f;
    for (int l = second; here && l < k; l += 2) s += __half2float(a[(size_t)row * k + l]) * __half2float(b[(size_t)l * n + col]);
    if (second) {
        asm volatile("bar.arrive 5, 64;" ::: "memory");
        other[lane] = s;
    } else {
        asm volatile("bar.sync 5, 64;" ::: "memory");
        if (here) c[(size_t)row * n + col] = __float2half(s + other[lane]);
    }
}
