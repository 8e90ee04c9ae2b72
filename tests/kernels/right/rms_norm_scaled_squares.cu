// problem: rms_norm
// style: the norm of LAPACK: the row's largest magnitude first, squares of the quotients, then eps against the scaled mean
// assay: launch rms_scaled grid=(rows) block=(128) args=(x, weight, y, eps, cols)
#include <cub/cub.cuh>

struct Largest {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

__global__ void rms_scaled(const float* x, const float* weight, float* y, float eps, int cols)
{
    using Reduce = cub::BlockReduce<float, 128, cub::BLOCK_REDUCE_RAKING>;
    __shared__ typename Reduce::TempStorage temp;
    __shared__ float shared;
    const float* in = x + (size_t)blockIdx.x * cols;
    float v = 0.0f;
    for (int j = threadIdx.x; j < cols; j += 128) v = fmaxf(v, fabsf(in[j]));
    v = Reduce(temp).Reduce(v, Largest());
    if (threadIdx.x == 0) shared = fmaxf(v, 1e-15f);
    __syncthreads();
    const float top = shared;
    v = 0.0f;
    for (int j = threadIdx.x; j < cols; j += 128) {
        const float q = in[j] / top;
        v += q * q;
    }
    v = Reduce(temp).Sum(v);
    __syncthreads();
    if (threadIdx.x == 0) shared = sqrtf(v / cols + eps / top / top);
    __syncthreads();
    for (int j = threadIdx.x; j < cols; j += 128)
        y[(size_t)blockIdx.x * cols + j] = in[j] / top / shared * weight[j];
}
