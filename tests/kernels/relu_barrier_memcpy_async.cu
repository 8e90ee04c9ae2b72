// problem: relu
// style: cuda::barrier and cuda::memcpy_async: a tile arrives at the barrier by itself
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

#include <cuda/barrier>

#pragma nv_diag_suppress static_var_with_dynamic_init

__global__ void relu(const float* x, float* y, int n)
{
    __shared__ float tile[256];
    __shared__ cuda::barrier<cuda::thread_scope_block> arrived;
    const int t = threadIdx.x, i = blockIdx.x * 256 + t;
    if (t == 0) init(&arrived, 256);
    __syncthreads();
    if (i < n) cuda::memcpy_async(tile + t, x + i, sizeof(float), arrived);
    arrived.arrive_and_wait();
    // Another thread's element: only the barrier says that it is there.
    const int other = t ^ 1, at = blockIdx.x * 256 + other;
    if (at < n) y[at] = fmaxf(tile[other], 0.0f);
}
