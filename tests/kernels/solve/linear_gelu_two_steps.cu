// problem: linear_gelu
// style: a temporary between two kernels, allocated once for the process
#include <cuda_runtime.h>

__global__ void linear(const float* x, const float* weight, const float* bias, float* z, int m, int n, int k)
{
    int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= m || column >= n) return;
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) sum += x[(size_t)row * k + i] * weight[(size_t)column * k + i];
    z[(size_t)row * n + column] = sum + bias[column];
}

__global__ void gelu(const float* z, float* y, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = 0.5f * z[i] * (1.0f + erff(z[i] * 0.70710678118654752f));
}

static float* scratch = nullptr;
static size_t scratch_bytes = 0;

static float* get_scratch(size_t bytes)
{
    if (bytes > scratch_bytes) {
        if (scratch) cudaFree(scratch);
        cudaMalloc(&scratch, bytes);
        scratch_bytes = bytes;
    }
    return scratch;
}

extern "C" void solve(const float* x, const float* weight, const float* bias, float* y, int m, int n, int k)
{
    float* z = get_scratch((size_t)m * n * sizeof(float));
    linear<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>(x, weight, bias, z, m, n, k);
    gelu<<<(m * n + 255) / 256, 256>>>(z, y, m * n);
}
