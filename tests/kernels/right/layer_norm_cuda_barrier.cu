// problem: layer_norm
// assay: launch ln_barrier grid=(rows) block=(96) args=(x, weight, bias, y, eps, cols)
// style: cuda::barrier with tokens (arrive, work between, wait); doubles met by atomicAdd in shared memory
#include <cuda/barrier>

__global__ void ln_barrier(const float* x, const float* weight, const float* bias, float* y, float eps, int cols)
{
    using barrier = cuda::barrier<cuda::thread_scope_block>;
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ barrier meet;
    __shared__ double sum, squares;
    if (threadIdx.x == 0) {
        init(&meet, blockDim.x);
        sum = squares = 0.0;
    }
    __syncthreads();
    const float* in = x + (size_t)blockIdx.x * cols;
    double s = 0.0;
    for (int j = threadIdx.x; j < cols; j += blockDim.x) s += in[j];
    atomicAdd(&sum, s);
    barrier::arrival_token token = meet.arrive();
    const float inverse = 1.0f / (float)cols;             // does not depend on the others
    meet.wait(std::move(token));
    const double mean = sum / cols;
    s = 0.0;
    for (int j = threadIdx.x; j < cols; j += blockDim.x) s += (in[j] - mean) * (in[j] - mean);
    atomicAdd(&squares, s);
    meet.arrive_and_wait();
    const float r = rsqrtf((float)squares * inverse + eps);
    for (int j = threadIdx.x; j < cols; j += blockDim.x)
        y[(size_t)blockIdx.x * cols + j] = (float)(in[j] - mean) * r * weight[j] + bias[j];
}
