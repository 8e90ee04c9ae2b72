// problem: matmul_f16
// assay: launch wmma_ker grid=(ceil_div(n, 32), ceil_div(m, 32)) block=(128) args=(a, b, c, m, n, k)
// style: wmma with four warps, a 32 x 32 tile of the block, fragments loaded from padded shared memory, float epilogue
#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;

__global__ void wmma_ker(const half* a, const half* b, half* c, int m, int n, int k)
{
    __shared__ half as[32][16 + 8], bs[16][32 + 8];
    __shared__ float cs[32][32 + 4];
    const int warp = threadIdx.x / 32, wm = warp / 2 * 16, wn = warp % 2 * 16;
    const int r0 = blockIdx.y * 32, c0 = blockIdx.x * 32;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc_frag;
    wmma::fill_fragment(acc_frag, 0.0f);
    for (int l0 = 0; l0 < k; l0 += 16) {
        for (int i = threadIdx.x; i < 512; i += 128) {
            const int ar = i / 16, ac = i % 16, br = i / 32, bc = i % 32;
            as[ar][ac] = r0 + ar < m && l0 + ac < k ? a[(size_t)(r0 + ar) * k + l0 + ac] : __float2half(0.0f);
            bs[br][bc] = l0 + br < k && c0 + bc < n ? b[(size_t)(l0 + br) * n + c0 + bc] : __float2half(0.0f);
        }
        __syncthreads();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a_frag;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b_frag;
        wmma::load_matrix_sync(a_frag, &as[wm][0], 24);
        wmma::load_matrix_sync(b_frag, &bs[0][wn], 40);
        wmma::mma_sync(acc_frag, a_frag, b_frag, acc_frag);
        __syncthreads();
    }
    wmma::store_matrix_sync(&cs[wm][wn], acc_frag, 36, wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < 1024; i += 128) {
        const int r = i / 32, col = i % 32;
        if (r0 + r < m && c0 + col < n) c[(size_t)(r0 + r) * n + c0 + col] = __float2half(cs[r][col]);
    }
}
