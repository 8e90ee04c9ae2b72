// problem: row_sum
// assay: launch sum_generic grid=(ceil_div(rows, 2)) block=(64) args=(x, y, rows, cols)
// style: one helper for shared, local and global memory through generic pointers; __isShared and __isLocal choose a stride
__device__ __noinline__ float add_up(const float* p, int count, int step)
{
    float s = 0.0f;
    const int hop = __isLocal(p) ? 1 : __isShared(p) ? 1 : step;
    for (int i = 0; i < count; ++i) s += p[i * hop];
    return s;
}

__global__ void sum_generic(const float* x, float* y, int rows, int cols)
{
    __shared__ float lanes[2][32];
    const int row = blockIdx.x * 2 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float pieces[4];
    const int mine = cols > lane ? (cols - lane + 31) / 32 : 0;
    const float* p = x + (size_t)row * cols + lane;
    for (int q = 0, done = 0; q < 4; ++q) {
        const int count = (mine - done) / (4 - q);
        pieces[q] = add_up(p + (size_t)done * 32, count, 32);
        done += count;
    }
    lanes[threadIdx.x / 32][lane] = add_up(pieces, 4, 0);
    __syncwarp();
    if (lane == 0) y[row] = add_up(lanes[threadIdx.x / 32], 32, 0);
}
