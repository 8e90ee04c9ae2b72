// problem: reduce_sum
// class: schedule
// race: barrier
// must: anything but passed
// why: a cooperative butterfly in place: in each round a block adds its partner's part to its own, with one grid.sync() a round instead of two, so it may overwrite the part that its partner has still to read
// proof: part[b] is read by block b ^ d in the same phase in which block b writes it
// assay: temp part float32 (32)
// assay: launch sum grid=(32) block=(128) cooperative args=(x, part, total, n)
#include <cooperative_groups.h>

__global__ void sum(const float* x, float* part, float* total, int n)
{
    auto grid = cooperative_groups::this_grid();
    __shared__ float warps[4];
    float s = 0.0f;
    for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += 32 * 128) s += x[i];
    for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = s;
    __syncthreads();
    const int b = blockIdx.x;
    if (threadIdx.x == 0) part[b] = warps[0] + warps[1] + warps[2] + warps[3];
    grid.sync();
    // all to all: after five rounds every part is the total
    for (int d = 1; d < 32; d *= 2) {
        float v = 0.0f;
        if (threadIdx.x == 0) {
            v = part[b] + part[b ^ d];
            part[b] = v;
        }
        grid.sync();
    }
    if (b == 31 && threadIdx.x == 0) *total = part[31];
}
