// problem: matmul_f16
// style: wmma in its tall shape, the second factor turned while it is staged
// assay: launch product grid=(ceil_div(n, 8), ceil_div(m, 32)) block=(32) args=(a, b, c, m, n, k)

#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;
constexpr int M = 32, N = 8, K = 16;

__global__ void product(const half* a, const half* b, half* c, int m, int n, int k)
{
    __shared__ alignas(32) half as[M * K], bs[K * N];
    __shared__ alignas(32) float cs[M * N];
    const int lane = threadIdx.x, top = blockIdx.y * M, left = blockIdx.x * N;
    wmma::fragment<wmma::matrix_a, M, N, K, half, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, M, N, K, half, wmma::col_major> y;
    wmma::fragment<wmma::accumulator, M, N, K, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int start = 0; start < k; start += K) {
        for (int i = lane; i < M * K; i += 32) {
            int row = top + i / K, col = start + i % K;
            as[i] = row < m && col < k ? a[(size_t)row * k + col] : __float2half(0.0f);
        }
        for (int i = lane; i < K * N; i += 32) {
            int row = start + i / N, col = left + i % N;
            half value = row < k && col < n ? b[(size_t)row * n + col] : __float2half(0.0f);
            bs[i % N * K + i / N] = value;
        }
        __syncwarp();
        wmma::load_matrix_sync(x, as, K);
        wmma::load_matrix_sync(y, bs, K);
        wmma::mma_sync(sum, x, y, sum);
        __syncwarp();
    }
    for (int i = 0; i < sum.num_elements; ++i) sum.x[i] *= 1.0f;
    wmma::store_matrix_sync(cs, sum, N, wmma::mem_row_major);
    __syncwarp();
    for (int i = lane; i < M * N; i += 32) {
        int row = top + i / N, col = left + i % N;
        if (row < m && col < n) c[(size_t)row * n + col] = __float2half(cs[i]);
    }
}
