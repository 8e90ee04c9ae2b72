// problem: reduce_sum
// class: limits
// must: anything but passed
// why: a cooperative launch of 240 blocks that need 150 KB of shared memory each: one fits on a multiprocessor, of which no GPU has 240, so the launch is refused there
// proof: cudaLaunchCooperativeKernel: cudaErrorCooperativeLaunchTooLarge
// assay: temp part float32 (240)
// assay: launch rs grid=(240) block=(256) shared=150000 cooperative args=(x, total, part, n)
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void rs(const float* x, float* total, float* part, int n)
{
    extern __shared__ float p[]; float s = 0; int t = threadIdx.x;
    for (int i = blockIdx.x * 256 + t; i < n; i += 240 * 256) s += x[i];
    p[t] = s; __syncthreads(); for (int w = 128; w; w >>= 1) { if (t < w) p[t] += p[t + w]; __syncthreads(); }
    if (t == 0) part[blockIdx.x] = p[0];
    cg::this_grid().sync();
    if (blockIdx.x == 0 && t == 0) { s = 0; for (int i = 0; i < 240; i++) s += part[i]; *total = s; }
}
