// problem: vector_add
// style: Tensara's solution, with size_t
#include <cuda_runtime.h>

__global__ void add(const float* d_input1, const float* d_input2, float* d_output, size_t n)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) d_output[i] = d_input1[i] + d_input2[i];
}

// Note: d_input1, d_input2, d_output are all device pointers to float arrays
extern "C" void solution(const float* d_input1, const float* d_input2, float* d_output, size_t n)
{
    const size_t block = 512;
    add<<<(n + block - 1) / block, block>>>(d_input1, d_input2, d_output, n);
}
