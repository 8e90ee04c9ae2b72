// problem: prefix_sum
// style: prefix sums by matrix products: tiles of 16 x 16 times a triangle of ones, x as three exact TF32 parts in wmma, each added in float32
// assay: temp sums float32 (ceil_div(n, 256))
// assay: launch tiles grid=(ceil_div(n, 256)) block=(32) args=(x, y, sums, n)
// assay: launch top grid=(1) block=(32) args=(sums, ceil_div(n, 256))
// assay: launch add grid=(ceil_div(n, 256)) block=(256) args=(y, sums, n)
#include <mma.h>
using namespace nvcuda::wmma;

__global__ void tiles(const float* x, float* y, float* sums, int n)
{
    __shared__ float a[3][256], ones[256], part[256], rows[16];
    const int first = blockIdx.x * 256;
    for (int k = threadIdx.x; k < 256; k += 32) {
        const float v = first + k < n ? x[first + k] : 0.0f;
        const float high = __uint_as_float(__float_as_uint(v) & 0xffffe000u);
        const float rest = v - high, middle = __uint_as_float(__float_as_uint(rest) & 0xffffe000u);
        a[0][k] = high;
        a[1][k] = middle;
        a[2][k] = rest - middle;
        ones[k] = k / 16 <= k % 16;
    }
    __syncwarp();
    float sum[8] = {};
    fragment<accumulator, 16, 16, 8, float> c;
    for (int p = 2; p >= 0; --p)
        for (int k = 0; k < 16; k += 8) {
            fragment<matrix_a, 16, 16, 8, precision::tf32, row_major> left;
            fragment<matrix_b, 16, 16, 8, precision::tf32, row_major> right;
            fill_fragment(c, 0.0f);
            load_matrix_sync(left, a[p] + k, 16);
            load_matrix_sync(right, ones + 16 * k, 16);
            mma_sync(c, left, right, c);
            for (int e = 0; e < 8; ++e) sum[e] += c.x[e];
        }
    for (int e = 0; e < 8; ++e) c.x[e] = sum[e];
    store_matrix_sync(part, c, 16, mem_row_major);
    __syncwarp();
    if (threadIdx.x == 0) {
        float run = 0.0f;
        for (int r = 0; r < 16; ++r) {
            rows[r] = run;
            run += part[16 * r + 15];
        }
        sums[blockIdx.x] = run;
    }
    __syncwarp();
    for (int k = threadIdx.x; k < 256; k += 32)
        if (first + k < n) y[first + k] = rows[k / 16] + part[k];
}

__global__ void top(float* sums, int count)
{
    float carry = 0.0f;
    for (int first = 0; first < count; first += 32) {
        const int i = first + threadIdx.x;
        const float own = i < count ? sums[i] : 0.0f;
        float v = own;
        for (int d = 1; d < 32; d *= 2) {
            const float left = __shfl_up_sync(~0u, v, d);
            if (threadIdx.x >= d) v += left;
        }
        const float left = __shfl_up_sync(~0u, v, 1);
        if (i < count) sums[i] = carry + (threadIdx.x ? left : 0.0f);
        carry += __shfl_sync(~0u, v, 31);
    }
}

__global__ void add(float* y, const float* sums, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] += sums[blockIdx.x];
}
