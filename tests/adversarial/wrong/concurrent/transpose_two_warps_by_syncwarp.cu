// problem: transpose
// class: schedule
// race: barrier
// must: anything but passed
// why: two warps share a tile, and each reads what the other has written behind __syncwarp(), which meets the lanes of one warp
// proof: __syncthreads() is needed; a warp that is later than the other
// assay: launch tr grid=(ceil_div(cols, 32), min(ceil_div(rows, 2), 4096)) block=(32, 2) args=(x, y, rows, cols)

__global__ void tr(const float* x, float* y, int rows, int cols)
{
    __shared__ float tile[2][32];
    for (int r0 = blockIdx.y * 2; r0 < rows; r0 += gridDim.y * 2) {
        const int r = r0 + threadIdx.y, c = blockIdx.x * 32 + threadIdx.x;
        if (r < rows && c < cols) tile[threadIdx.y][threadIdx.x] = x[(size_t)r * cols + c];
        __syncwarp();
        const int e = threadIdx.y * 32 + threadIdx.x, rr = r0 + e % 2, cc = blockIdx.x * 32 + e / 2;
        if (rr < rows && cc < cols) y[(size_t)cc * rows + rr] = tile[e % 2][e / 2];
        __syncwarp();
    }
}
