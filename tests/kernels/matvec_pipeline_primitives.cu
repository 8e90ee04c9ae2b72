// problem: matvec
// style: the pipeline primitives of CUDA C: the vector is copied to shared memory piece by piece
// assay: launch matvec grid=(ceil_div(m, 64)) block=(64) args=(a, x, y, m, k)

#include <cuda_pipeline.h>

__global__ void matvec(const float* a, const float* x, float* y, int m, int k)
{
    __shared__ float piece[2][64];
    const int t = threadIdx.x, row = blockIdx.x * 64 + t;
    float sum = 0.0f;
    if (t < k) __pipeline_memcpy_async(&piece[0][t], x + t, 4);
    __pipeline_commit();
    for (int start = 0, stage = 0; start < k; start += 64, stage ^= 1) {
        if (start + 64 + t < k) __pipeline_memcpy_async(&piece[stage ^ 1][t], x + start + 64 + t, 4);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        for (int i = 0; row < m && i < min(64, k - start); ++i) sum += a[(size_t)row * k + start + i] * piece[stage][i];
        __syncthreads();
    }
    if (row < m) y[row] = sum;
}
