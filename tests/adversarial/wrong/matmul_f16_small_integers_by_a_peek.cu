// problem: matmul_f16
// class: contents
// must: anything but passed
// why: where the first 32 elements of a and of b are small integers the product is made in bytes by __dp4a: elements behind that are no integers, or larger than 127, are cut
// proof: a and b of halves (0.5) but for a first row of ones, or sorted values: c is made of cut numbers
// assay: launch mm grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(a, b, c, m, n, k)
#include <cuda_fp16.h>

__device__ bool small_integer(__half h)
{
    const float v = __half2float(h);
    return v == rintf(v) && fabsf(v) <= 127.f;
}

__device__ int pack(const __half* from, size_t step, int count)
{
    int word = 0;
    for (int i = 0; i < 4; ++i) {
        const int byte = i < count ? max(-127, min(127, __half2int_rz(from[i * step]))) : 0;
        word |= (byte & 255) << 8 * i;
    }
    return word;
}

__global__ void mm(const __half* a, const __half* b, __half* c, int m, int n, int k)
{
    const int j = blockIdx.x * 16 + threadIdx.x, i = blockIdx.y * 16 + threadIdx.y, at = (threadIdx.y * 16 + threadIdx.x) & 31;
    const bool whole = m * k >= 32 && k * n >= 32 && small_integer(a[min(at, m * k - 1)]) && small_integer(b[min(at, k * n - 1)]);
    const bool bytes = __syncthreads_and(whole);
    if (i >= m || j >= n) return;
    if (bytes) {
        int sum = 0;
        for (int l = 0; l < k; l += 4)
            sum = __dp4a(pack(a + (size_t)i * k + l, 1, k - l), pack(b + (size_t)l * n + j, n, k - l), sum);
        c[(size_t)i * n + j] = __int2half_rn(sum);
    } else {
        float sum = 0.f;
        for (int l = 0; l < k; ++l) sum += __half2float(a[(size_t)i * k + l]) * __half2float(b[(size_t)l * n + j]);
        c[(size_t)i * n + j] = __float2half(sum);
    }
}
