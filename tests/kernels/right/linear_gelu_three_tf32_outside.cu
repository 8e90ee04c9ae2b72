// problem: linear_gelu
// style: wmma with three TF32 products of big and small parts, each fragment started at zero and added in float32 registers; normcdff at the end
// assay: launch lg_wmma grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(32) args=(x, weight, bias, y, m, n, k)
#include <mma.h>
using namespace nvcuda::wmma;

__global__ void lg_wmma(const float* x, const float* weight, const float* bias, float* y, int m, int n, int k)
{
    __shared__ float a[2][128], b[2][128], tile[256];
    fragment<matrix_a, 16, 16, 8, precision::tf32, row_major> left;
    fragment<matrix_b, 16, 16, 8, precision::tf32, col_major> right;
    fragment<accumulator, 16, 16, 8, float> c;
    float sum[8] = {};
    for (int first = 0; first < k; first += 8) {
        __syncwarp();
        for (int e = threadIdx.x; e < 128; e += 32) {
            const int l = first + e % 8, r = blockIdx.y * 16 + e / 8, q = blockIdx.x * 16 + e / 8;
            const float u = r < m && l < k ? x[(size_t)r * k + l] : 0.0f;
            const float v = q < n && l < k ? weight[(size_t)q * k + l] : 0.0f;
            a[0][e] = __float_to_tf32(u);
            a[1][e] = __float_to_tf32(u - a[0][e]);
            b[0][e] = __float_to_tf32(v);
            b[1][e] = __float_to_tf32(v - b[0][e]);
        }
        __syncwarp();
        for (int p = 0; p < 3; ++p) {
            fill_fragment(c, 0.0f);
            load_matrix_sync(left, a[p == 0], 8);
            load_matrix_sync(right, b[p == 1], 8);
            mma_sync(c, left, right, c);
            for (int e = 0; e < 8; ++e) sum[e] += c.x[e];
        }
    }
    for (int e = 0; e < 8; ++e) c.x[e] = sum[e];
    store_matrix_sync(tile, c, 16, mem_row_major);
    __syncwarp();
    for (int e = threadIdx.x; e < 256; e += 32) {
        const int row = blockIdx.y * 16 + e / 16, col = blockIdx.x * 16 + e % 16;
        if (row < m && col < n) {
            const float z = tile[e] + bias[col];
            y[(size_t)row * n + col] = z * normcdff(z);
        }
    }
}
