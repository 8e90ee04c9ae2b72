// problem: matmul_f16
// attack: tiles for `wmma` that begin at a multiple of 8 bytes in shared memory
// expect: runtime_error
// because: NVIDIA asks for a multiple of 32; from shared memory rows come by `ldmatrix`, which traps between 16
// fault: misaligned
// message: 8 bytes behind a multiple of 16
// assay: launch product grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(32) args=(a, b, c, m, n, k)

#include <mma.h>
using namespace nvcuda;

__global__ void product(const half* a, const half* b, half* c, int m, int n, int k)
{
    constexpr int PITCH = 24;
    __shared__ alignas(32) half room[2 * 16 * PITCH + 8];
    __shared__ float sums[16 * 16];
    half* left = room + 4;
    half* right = left + 16 * PITCH;
    int row = 16 * blockIdx.y, col = 16 * blockIdx.x;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int at = 0; at < k; at += 16) {
        for (int e = threadIdx.x; e < 256; e += 32) {
            int i = e / 16, j = e % 16;
            left[i * PITCH + j] = row + i < m && at + j < k ? a[(row + i) * k + at + j] : __float2half(0.0f);
            right[i * PITCH + j] = at + i < k && col + j < n ? b[(at + i) * n + col + j] : __float2half(0.0f);
        }
        __syncwarp();
        wmma::load_matrix_sync(x, left, PITCH);  // HERE
        wmma::load_matrix_sync(y, right, PITCH);
        wmma::mma_sync(sum, x, y, sum);
        __syncwarp();
    }
    wmma::store_matrix_sync(sums, sum, 16, wmma::mem_row_major);
    __syncwarp();
    for (int e = threadIdx.x; e < 256; e += 32) {
        int i = row + e / 16, j = col + e % 16;
        if (i < m && j < n) {
            c[i * n + j] = __float2half(sums[e]);
        }
    }
}
