// problem: matmul_f16
// assay: launch wmma_edges grid=(ceil_div(n, 32), ceil_div(m, 8)) block=(32) args=(a, b, c, m, n, k)
// style: wmma 8 x 32 x 16: whole tiles load straight from global memory where the leading dimension allows; num_elements loops
#include <mma.h>
#include <cuda_fp16.h>

__global__ void wmma_edges(const half* a, const half* b, half* c, int m, int n, int k)
{
    using namespace nvcuda::wmma;
    __shared__ __align__(32) half sa[8 * 16];
    __shared__ __align__(32) half sb[16 * 32];
    __shared__ __align__(32) float sc[8 * 32];
    const int lane = threadIdx.x, r0 = blockIdx.y * 8, c0 = blockIdx.x * 32;
    fragment<accumulator, 8, 32, 16, float> total, part;
    for (int e = 0; e < total.num_elements; ++e) total.x[e] = 0.0f;
    for (int l0 = 0; l0 < k; l0 += 16) {
        fragment<matrix_a, 8, 32, 16, half, row_major> fa;
        fragment<matrix_b, 8, 32, 16, half, row_major> fb;
        if (r0 + 8 <= m && l0 + 16 <= k && k % 16 == 0) {
            load_matrix_sync(fa, a + (size_t)r0 * k + l0, k);
        } else {
            __syncwarp();
            for (int e = lane; e < 128; e += 32) {
                const int r = r0 + e / 16, l = l0 + e % 16;
                sa[e] = r < m && l < k ? a[(size_t)r * k + l] : __float2half(0.0f);
            }
            __syncwarp();
            load_matrix_sync(fa, sa, 16);
        }
        if (c0 + 32 <= n && l0 + 16 <= k && n % 16 == 0) {
            load_matrix_sync(fb, b + (size_t)l0 * n + c0, n);
        } else {
            __syncwarp();
            for (int e = lane; e < 512; e += 32) {
                const int l = l0 + e / 32, col = c0 + e % 32;
                sb[e] = l < k && col < n ? b[(size_t)l * n + col] : __float2half(0.0f);
            }
            __syncwarp();
            load_matrix_sync(fb, sb, 32);
        }
        fill_fragment(part, 0.0f);
        mma_sync(part, fa, fb, part);
        for (int e = 0; e < total.num_elements; ++e) total.x[e] += part.x[e];
    }
    store_matrix_sync(sc, total, 32, mem_row_major);
    __syncwarp();
    for (int e = lane; e < 256; e += 32)
        if (r0 + e / 32 < m && c0 + e % 32 < n) c[(size_t)(r0 + e / 32) * n + c0 + e % 32] = __float2half_rn(sc[e]);
}
