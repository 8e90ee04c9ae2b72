// problem: matmul_f16
// assay: temp workspace float32 (3, m, n)
// assay: launch partial grid=(ceil_div(n, 16), ceil_div(m, 16), 3) block=(16, 16) args=(a, b, workspace, m, n, k, ceil_div(k, 3))
// assay: launch reduce_convert grid=(ceil_div(m * n, 256)) block=(256) args=(workspace, c, m * n)
// style: split-K into a float32 workspace of three slices, summed and rounded once in a second launch
#include <cuda_fp16.h>

__global__ void partial(const __half* a, const __half* b, float* w, int m, int n, int k, int slice)
{
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || col >= n) return;
    const int begin = blockIdx.z * slice, end = min(k, begin + slice);
    float s = 0.0f;
    for (int l = begin; l < end; ++l) s += float(a[(size_t)row * k + l]) * float(b[(size_t)l * n + col]);
    w[(size_t)blockIdx.z * m * n + (size_t)row * n + col] = s;
}

__global__ void reduce_convert(const float* w, __half* c, int count)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < count) c[i] = __float2half_rn(w[i] + w[(size_t)count + i] + w[(size_t)count * 2 + i]);
}
