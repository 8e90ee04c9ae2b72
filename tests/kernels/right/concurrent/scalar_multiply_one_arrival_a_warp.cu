// problem: scalar_multiply
// assay: launch flip grid=(ceil_div(n, 128)) block=(128) args=(x, y, alpha, n)
// style: a cuda::barrier that expects one arrival of each warp: __syncwarp(), lane 0 arrives, all wait by parity
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
    __syncwarp();
    if (t % 32 == 0) (void)meet.arrive();
    meet.wait_parity(false);
    if (base + 127 - t < n) y[base + 127 - t] = tile[127 - t];
}
