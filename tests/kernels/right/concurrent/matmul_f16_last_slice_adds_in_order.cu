// problem: matmul_f16
// assay: temp part float32 (3 * m * n)
// assay: temp count uint32 (ceil_div(m, 16) * ceil_div(n, 16))
// assay: fill count value=0
// assay: launch mm grid=(ceil_div(n, 16), ceil_div(m, 16), 3) block=(16, 16) args=(a, b, c, part, count, m, n, k)
// style: split-K, the last of three slices adds them in a fixed order and rounds once; fences and counter of system scope
#include <cuda_fp16.h>

__global__ void mm(const __half* a, const __half* b, __half* c, float* part, unsigned* count, int m, int n, int k)
{
    __shared__ __half as[16][18], bs[16][18];
    __shared__ bool last;
    const int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    const int slice = (k + 2) / 3, begin = min(k, (int)blockIdx.z * slice), end = min(k, begin + slice);
    float s = 0.0f;
    for (int l = begin; l < end; l += 16) {
        as[ty][tx] = row < m && l + tx < end ? a[(size_t)row * k + l + tx] : __float2half(0.0f);
        bs[ty][tx] = col < n && l + ty < end ? b[(size_t)(l + ty) * n + col] : __float2half(0.0f);
        __syncthreads();
        for (int e = 0; e < 16; ++e) s += __half2float(as[ty][e]) * __half2float(bs[e][tx]);
        __syncthreads();
    }
    const bool here = row < m && col < n;
    if (here) part[((size_t)blockIdx.z * m + row) * n + col] = s;
    __syncthreads();
    if (tx + ty == 0) {
        __threadfence_system();
        last = atomicAdd_system(&count[blockIdx.y * gridDim.x + blockIdx.x], 1u) == 2;
        __threadfence_system();
    }
    __syncthreads();
    if (last && here) {
        float sum = 0.0f;
        for (int z = 0; z < 3; ++z) sum += part[((size_t)z * m + row) * n + col];
        c[(size_t)row * n + col] = __float2half(sum);
    }
}
