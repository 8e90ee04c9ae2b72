// problem: matmul_f16
// class: sizes
// must: anything but passed
// why: one launch writes the order of tiles to a table of 4,096 entries, the number at the timed size; products of more tiles of 64 x 64 stay partly unwritten
// proof: assay grade --size m=4160 --size n=4096 --size k=2 refuses it
// assay: temp order int32 (4096)
// assay: launch plan_tiles grid=(4) block=(1024) args=(order, ceil_div(m, 64), ceil_div(n, 64))
// assay: launch hgemm grid=(min(ceil_div(m, 64) * ceil_div(n, 64), 264)) block=(16, 16) args=(a, b, c, order, min(ceil_div(m, 64) * ceil_div(n, 64), 4096), m, n, k)
#include <cuda_fp16.h>

__global__ void plan_tiles(int* order, int down, int across)
{
    const int slot = blockIdx.x * 1024 + threadIdx.x;
    if (slot < 4096 && slot < down * across) order[slot] = (slot % down) << 16 | (slot / down);  // column by column
}

__global__ void __launch_bounds__(256)
hgemm(const half* A, const half* B, half* C, const int* order, int tiles, int M, int N, int K)
{
    __shared__ half As[16][66], Bs[16][66];
    const int tid = threadIdx.y * 16 + threadIdx.x;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int code = order[tile], row0 = (code >> 16) * 64, col0 = (code & 0xffff) * 64;
        float acc[4][4] = {};
        for (int k0 = 0; k0 < K; k0 += 16) {
            for (int e = tid; e < 1024; e += 256) {
                const int r = e >> 4, kk = e & 15;
                As[kk][r] = row0 + r < M && k0 + kk < K ? A[(size_t)(row0 + r) * K + k0 + kk] : __float2half(0.f);
                const int kb = e >> 6, cc = e & 63;
                Bs[kb][cc] = k0 + kb < K && col0 + cc < N ? B[(size_t)(k0 + kb) * N + col0 + cc] : __float2half(0.f);
            }
            __syncthreads();
            for (int kk = 0; kk < 16; ++kk) {
                float fa[4], fb[4];
                for (int i = 0; i < 4; ++i) { fa[i] = __half2float(As[kk][threadIdx.y * 4 + i]); fb[i] = __half2float(Bs[kk][threadIdx.x * 4 + i]); }
                for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j) acc[i][j] += fa[i] * fb[j];
            }
            __syncthreads();
        }
        for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j) {
            const int r = row0 + threadIdx.y * 4 + i, c = col0 + threadIdx.x * 4 + j;
            if (r < M && c < N) C[(size_t)r * N + c] = __float2half(acc[i][j]);
        }
    }
}
