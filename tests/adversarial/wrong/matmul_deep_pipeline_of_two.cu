// problem: matmul
// class: shared
// must: anything but passed
// why: from k = 1,024 on tiles are fetched two ahead, into a ring that still has two buffers: a tile is overwritten before and while it is read. Published and hidden depths end at 257, the timed one is 2,048
// proof: on a GPU with k >= 1024: the copy of tile t + 2 goes into the buffer that tile t is then read from (a simulator that lets copies land as late as they may does not see it even there)
// assay: launch gemm grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(a, b, c, m, n, k)
#include <cuda_pipeline.h>

#define STAGES 2
struct Stage { float a[16][16], b[16][16]; };

__device__ void fetch(Stage& s, const float* A, const float* B, int row, int col, int l, int m, int n, int k)
{
    const int ty = threadIdx.y, tx = threadIdx.x;
    if (row < m && l + tx < k) __pipeline_memcpy_async(&s.a[ty][tx], A + (size_t)row * k + l + tx, 4);
    else s.a[ty][tx] = 0.f;
    if (col < n && l + ty < k) __pipeline_memcpy_async(&s.b[ty][tx], B + (size_t)(l + ty) * n + col, 4);
    else s.b[ty][tx] = 0.f;
}

__global__ void gemm(const float* A, const float* B, float* C, int m, int n, int k)
{
    __shared__ Stage ring[STAGES];
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    const int tiles = (k + 15) / 16, ahead = k >= 1024 ? 2 : 1;
    for (int t = 0; t < ahead; ++t) {
        if (t < tiles) fetch(ring[t % STAGES], A, B, row, col, t * 16, m, n, k);
        __pipeline_commit();
    }
    float sum = 0.f;
    for (int t = 0; t < tiles; ++t) {
        if (t + ahead < tiles) fetch(ring[(t + ahead) % STAGES], A, B, row, col, (t + ahead) * 16, m, n, k);
        __pipeline_commit();
        if (ahead == 1) __pipeline_wait_prior(1);
        else __pipeline_wait_prior(2);
        __syncthreads();
        const Stage& s = ring[t % STAGES];
        for (int i = 0; i < 16; ++i) sum += s.a[threadIdx.y][i] * s.b[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && col < n) C[(size_t)row * n + col] = sum;
}
