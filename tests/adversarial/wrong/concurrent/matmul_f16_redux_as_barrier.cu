// problem: matmul_f16
// class: schedule
// race: shuffle
// must: passed with a warning | anything but passed
// why: a warp keeps a tile of b in shared memory, and the only thing between its stores and the loads of other lanes is __reduce_add_sync, which orders no memory
// proof: PTX redux.sync: no memory ordering is stated; __syncwarp() is missing on both sides of the loads
// assay: launch mm grid=(ceil_div(n, 8), ceil_div(m, 4)) block=(32) args=(a, b, c, m, n, k)
#include <cuda_fp16.h>

__global__ void mm(const __half* a, const __half* b, __half* c, int m, int n, int k)
{
    __shared__ float tile[4][8];
    const int lane = threadIdx.x, row = blockIdx.y * 4 + lane / 8, col = blockIdx.x * 8 + lane % 8;
    float s = 0.0f;
    for (int l = 0; l < k; l += 4) {
        const bool inside = l + lane / 8 < k && col < n;
        tile[lane / 8][lane % 8] = inside ? __half2float(b[(size_t)(l + lane / 8) * n + col]) : 0.0f;
        const int some = __reduce_add_sync(0xffffffffu, inside ? 1 : 0);
        for (int e = 0; some && e < min(4, k - l); ++e)
            if (row < m) s += __half2float(a[(size_t)row * k + l + e]) * tile[e][lane % 8];
    }
    if (row < m && col < n) c[(size_t)row * n + col] = __float2half(s);
}
