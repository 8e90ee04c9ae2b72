// problem: matmul
// style: double-buffered tiles in shared memory: the next tile loads while this one multiplies
// assay: launch matmul_db grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(a, b, c, m, n, k)

constexpr int TILE = 16;

__global__ void matmul_db(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n,
                          int k)
{
    __shared__ float as[2][TILE][TILE + 1];
    __shared__ float bs[2][TILE][TILE];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
    auto load = [&](int buffer, int start) {
        as[buffer][ty][tx] = row < m && start + tx < k ? a[(size_t)row * k + start + tx] : 0.0f;
        bs[buffer][ty][tx] = col < n && start + ty < k ? b[(size_t)(start + ty) * n + col] : 0.0f;
    };
    float sum = 0.0f;
    int now = 0;
    load(now, 0);
    __syncthreads();
    for (int start = 0; start < k; start += TILE) {
        if (start + TILE < k) {
            load(now ^ 1, start + TILE);
        }
#pragma unroll
        for (int i = 0; i < TILE; ++i) {
            sum = fmaf(as[now][ty][i], bs[now][i][tx], sum);
        }
        __syncthreads();
        now ^= 1;
    }
    if (row < m && col < n) {
        c[(size_t)row * n + col] = sum;
    }
}
