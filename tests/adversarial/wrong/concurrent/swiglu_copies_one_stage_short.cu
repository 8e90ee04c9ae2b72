// problem: swiglu
// class: schedule
// race: barrier
// must: anything but passed
// why: three stages of cp.async with two groups in flight; in the loop's last rounds no new group is committed, but the wait still allows two to be open, so the last two tiles are read before they are there
// proof: PTX ISA, cp.async.wait_group N: waits until at most the N youngest groups are pending; at the end the awaited one is among them
// assay: launch sw grid=(min(ceil_div(rows * cols, 256), 100)) block=(128) args=(gate, up, y, rows * cols)
#include <cuda_pipeline.h>

__global__ void sw(const float* gate, const float* up, float* y, int n)
{
    __shared__ float g[3][128], u[3][128];
    const int step = gridDim.x * 128, t = threadIdx.x, begin = blockIdx.x * 128 + t;
    auto fetch = [&](int i, int s) {
        if (i >= n) return;
        __pipeline_memcpy_async(&g[s][t], gate + i, 4);
        __pipeline_memcpy_async(&u[s][t], up + i, 4);
        __pipeline_commit();
    };
    fetch(begin, 0);
    fetch(begin + step, 1);
    for (int i = begin, s = 0; i < n; i += step, s = (s + 1) % 3) {
        fetch(i + 2 * step, (s + 2) % 3);
        __pipeline_wait_prior(2);
        const float v = g[s][t];
        y[i] = v / (1.0f + expf(-v)) * u[s][t];
    }
}
