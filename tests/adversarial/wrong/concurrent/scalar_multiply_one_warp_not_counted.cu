// problem: scalar_multiply
// class: schedule
// race: barrier
// must: anything but passed
// why: a cuda::barrier is made for 64 threads while 96 write and arrive: its first phase is over when two of the three warps have come, and readers find a third of the tile missing
// proof: init(&meet, 96) is needed; a warp that is later than the two others
// assay: launch flip grid=(ceil_div(n, 96)) block=(96) args=(x, y, alpha, n)
#include <cuda/barrier>

__global__ void flip(const float* x, float* y, float alpha, int n)
{
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ cuda::barrier<cuda::thread_scope_block> meet;
    __shared__ float tile[96];
    const int t = threadIdx.x, base = blockIdx.x * 96;
    if (t == 0) init(&meet, 64);
    __syncthreads();
    if (base + t < n) tile[t] = alpha * x[base + t];
    (void)meet.arrive();
    meet.wait_parity(false);
    if (base + 95 - t < n) y[base + 95 - t] = tile[95 - t];
}
