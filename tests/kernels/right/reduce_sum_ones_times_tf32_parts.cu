// problem: reduce_sum
// style: the sum as products with a matrix of ones: three exact TF32 parts in wmma, each fragment added up in float32 at once
// assay: temp part float32 (min(ceil_div(n, 128), 256))
// assay: launch by_ones grid=(min(ceil_div(n, 128), 256)) block=(32) args=(x, part, n)
// assay: launch last grid=(1) block=(32) args=(part, total, min(ceil_div(n, 128), 256))
#include <mma.h>
using namespace nvcuda::wmma;

__global__ void by_ones(const float* x, float* part, int n)
{
    __shared__ float a[3][128], found[256];
    fragment<matrix_a, 16, 16, 8, precision::tf32, row_major> left;
    fragment<matrix_b, 16, 16, 8, precision::tf32, col_major> ones;
    fragment<accumulator, 16, 16, 8, float> c;
    fill_fragment(ones, 1.0f);
    float sum[8] = {};
    for (int first = blockIdx.x * 128; first < n; first += gridDim.x * 128) {
        __syncwarp();
        for (int k = threadIdx.x; k < 128; k += 32) {
            const float v = first + k < n ? x[first + k] : 0.0f;
            const float high = __uint_as_float(__float_as_uint(v) & 0xffffe000u), rest = v - high;
            const float middle = __uint_as_float(__float_as_uint(rest) & 0xffffe000u);
            a[0][k] = high;
            a[1][k] = middle;
            a[2][k] = rest - middle;
        }
        __syncwarp();
        for (int p = 2; p >= 0; --p) {
            fill_fragment(c, 0.0f);
            load_matrix_sync(left, a[p], 8);
            mma_sync(c, left, ones, c);
            for (int e = 0; e < 8; ++e) sum[e] += c.x[e];
        }
    }
    for (int e = 0; e < 8; ++e) c.x[e] = sum[e];
    store_matrix_sync(found, c, 16, mem_row_major);
    __syncwarp();
    if (threadIdx.x == 0) {
        float all = 0.0f;
        for (int r = 0; r < 16; ++r) all += found[16 * r];
        part[blockIdx.x] = all;
    }
}

__global__ void last(const float* part, float* total, int count)
{
    float v = 0.0f;
    for (int i = threadIdx.x; i < count; i += 32) v += part[i];
    for (int d = 16; d; d /= 2) v += __shfl_xor_sync(~0u, v, d);
    if (threadIdx.x == 0) *total = v;
}
