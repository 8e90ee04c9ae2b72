// problem: scalar_multiply
// class: schedule
// race: barrier
// must: anything but passed
// why: lane 0 arrives for its warp at a cuda::barrier without __syncwarp() before it: the other lanes may not have stored yet
// proof: PTX: the arrival releases what lane 0 has done; only bar.warp.sync brings the other lanes to it
// assay: launch flip grid=(ceil_div(n, 128)) block=(128) args=(x, y, alpha, n)
#include <cuda/barrier>

__global__ void flip(const float* x, float* y, float alpha, int n)
{
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ cuda::barrier<cuda::thread_scope_block> meet;
    __shared__ float tile[128];
    const int t = threadIdx.x, base = blockIdx.x * 128;
    if (t == 0) init(&meet, 4);
    __syncthreads();
    if (base + t < n) tile[t] = alpha * x[base + t];
    if (t % 32 == 0) (void)meet.arrive();
    meet.wait_parity(false);
    if (base + 127 - t < n) y[base + 127 - t] = tile[127 - t];
}
