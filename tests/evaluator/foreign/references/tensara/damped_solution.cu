#include <cuda_runtime.h>

__global__ void product(const float* matrix, const float* vector, float damping, float* result, size_t rows, size_t columns)
{
    size_t row = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (size_t i = 0; i < columns; ++i) sum += matrix[row * columns + i] * vector[i];
    result[row] = damping * sum;
}

extern "C" void solution(const float* m, const float* v, float d, float* out, size_t height, size_t width)
{
    product<<<(height + 63) / 64, 64>>>(m, v, d, out, height, width);
}
