// problem: matmul
// style: 64 x 64 tile a block, 4 x 4 results a thread in registers
// assay: launch matmul_4x4 grid=(ceil_div(n, 64), ceil_div(m, 64)) block=(256) args=(a, b, c, m, n, k)

__global__ __launch_bounds__(256) void matmul_4x4(const float* __restrict__ a, const float* __restrict__ b,
                                                  float* __restrict__ c, int m, int n, int k)
{
    __shared__ float as[8][64], bs[8][64];
    const int t = threadIdx.x;
    const int top = blockIdx.y * 64, left = blockIdx.x * 64;
    const int ty = t / 16 * 4, tx = t % 16 * 4;
    float acc[4][4] = {};
    for (int start = 0; start < k; start += 8) {
        for (int e = t; e < 512; e += 256) {
            const int ar = e / 8, ac = e % 8, br = e / 64, bc = e % 64;
            as[ac][ar] = top + ar < m && start + ac < k ? a[(size_t)(top + ar) * k + start + ac] : 0.0f;
            bs[br][bc] = start + br < k && left + bc < n ? b[(size_t)(start + br) * n + left + bc] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const float4 p = *reinterpret_cast<const float4*>(&as[i][ty]);
            const float4 q = *reinterpret_cast<const float4*>(&bs[i][tx]);
            const float pr[4] = {p.x, p.y, p.z, p.w}, qr[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
            for (int r = 0; r < 4; ++r) {
#pragma unroll
                for (int s = 0; s < 4; ++s) {
                    acc[r][s] += pr[r] * qr[s];
                }
            }
        }
        __syncthreads();
    }
    for (int r = 0; r < 4; ++r) {
        for (int s = 0; s < 4; ++s) {
            if (top + ty + r < m && left + tx + s < n) {
                c[(size_t)(top + ty + r) * n + left + tx + s] = acc[r][s];
            }
        }
    }
}
