// problem: transpose
// assay: launch transpose_async grid=(ceil_div(cols, 32), min(ceil_div(rows, 32), 512)) block=(32, 8) args=(x, y, rows, cols)
// style: walks down the tiles of a column with two buffers: cp.async fetches the next tile while this one is written
__device__ __forceinline__ void fetch(float* to, const float* from, bool inside)
{
    const unsigned shared = (unsigned)__cvta_generic_to_shared(to);
    const int bytes = inside ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(from), "r"(bytes) : "memory");
}

__global__ void transpose_async(const float* __restrict__ x, float* __restrict__ y, int rows, int cols)
{
    __shared__ float tile[2][32][33];
    const int tiles = (rows + 31) / 32, c = blockIdx.x * 32 + threadIdx.x;
    auto load = [&](int t, int into) {
        for (int r = threadIdx.y; r < 32; r += 8) {
            const int row = t * 32 + r;
            const bool inside = row < rows && c < cols;
            fetch(&tile[into][r][threadIdx.x], inside ? x + (size_t)row * cols + c : x, inside);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    int now = 0;
    load(blockIdx.y, now);
    for (int t = blockIdx.y; t < tiles; t += gridDim.y) {
        const bool more = t + (int)gridDim.y < tiles;
        if (more) {
            load(t + gridDim.y, now ^ 1);
            asm volatile("cp.async.wait_group 1;" ::: "memory");
        } else {
            asm volatile("cp.async.wait_group 0;" ::: "memory");
        }
        __syncthreads();
        for (int k = threadIdx.y; k < 32; k += 8) {
            const int row = t * 32 + threadIdx.x, col = blockIdx.x * 32 + k;
            if (row < rows && col < cols) y[(size_t)col * rows + row] = tile[now][threadIdx.x][k];
        }
        __syncthreads();
        now ^= 1;
    }
}
