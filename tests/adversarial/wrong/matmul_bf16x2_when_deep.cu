// problem: matmul
// class: precision
// must: anything but passed
// why: from k = 2,048 on factors are two bfloat16 parts (16 bits, three products of tensor cores are what a GPU would do)
// proof: k = 2,050, one element of a row of a outweighs the others: c is off by 2^-18
// assay: launch mm grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(a, b, c, m, n, k)
#include <cuda_bf16.h>
__device__ float two(float v) { float h = __bfloat162float(__float2bfloat16(v)); return h + __bfloat162float(__float2bfloat16(v - h)); }
__global__ void mm(const float* a, const float* b, float* c, int m, int n, int k)
{
    __shared__ float A[16][17], B[16][17];
    int ty = threadIdx.y, tx = threadIdx.x, j = blockIdx.x * 16 + tx; bool low = k >= 2048;
    for (int by = blockIdx.y; by * 16 < m; by += gridDim.y) {
        int i = by * 16 + ty; float s = 0;
        for (int l = 0; l < k; l += 16) {
            float u = i < m && l + tx < k ? a[(size_t)i * k + l + tx] : 0.f, v = j < n && l + ty < k ? b[(size_t)(l + ty) * n + j] : 0.f;
            A[ty][tx] = low ? two(u) : u; B[ty][tx] = low ? two(v) : v;
            __syncthreads();
            for (int q = 0; q < 16; q++) s += A[ty][q] * B[q][tx];
            __syncthreads();
        }
        if (i < m && j < n) c[(size_t)i * n + j] = s;
    }
}
