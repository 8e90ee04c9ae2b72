// problem: swiglu
// attack: rounds gate and up to float16
// expect: incorrect
// because: the probes hold values that differ below this precision

#include <cuda_fp16.h>

__device__ float silu(float v)
{
    return v / (1.0f + expf(-v));
}

__global__ void low_precision(const float* gate, const float* up, float* y, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) {
        y[i] = silu(__half2float(__float2half(gate[i]))) * __half2float(__float2half(up[i]));
    }
}
