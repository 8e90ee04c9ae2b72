// problem: linear_gelu
// class: contents
// must: anything but passed
// why: from k = 1,024 on GELU is its tanh approximation (off by 4.7e-4)
// proof: k = 1,024, sums near 2: y is off by 4e-4
// assay: launch mm grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(x, weight, bias, y, m, n, k)
#include <cuda_bf16.h>
__device__ float two(float v) { float h = __bfloat162float(__float2bfloat16(v)); return h + __bfloat162float(__float2bfloat16(v - h)); }
__global__ void mm(const float* a, const float* b, const float* bias, float* c, int m, int n, int k)
{
    __shared__ float A[16][17], B[16][17];
    int ty = threadIdx.y, tx = threadIdx.x, j = blockIdx.x * 16 + tx; bool low = false;
    for (int by = blockIdx.y; by * 16 < m; by += gridDim.y) {
        int i = by * 16 + ty; float s = 0;
        for (int l = 0; l < k; l += 16) {
            float u = i < m && l + tx < k ? a[(size_t)i * k + l + tx] : 0.f, v = j < n && l + ty < k ? b[(size_t)j * k + l + ty] : 0.f;
            A[ty][tx] = low ? two(u) : u; B[ty][tx] = low ? two(v) : v;
            __syncthreads();
            for (int q = 0; q < 16; q++) s += A[ty][q] * B[q][tx];
            __syncthreads();
        }
        if (i < m && j < n) { s += bias[j]; c[(size_t)i * n + j] = k >= 1024 ? 0.5f * s * (1.f + tanhf(0.79788456f * (s + 0.044715f * s * s * s))) : 0.5f * s * (1.f + erff(s * 0.70710678f)); }
    }
}
