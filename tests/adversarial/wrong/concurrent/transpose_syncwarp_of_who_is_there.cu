// problem: transpose
// class: schedule
// race: mask
// must: passed with a warning | anything but passed
// why: a warp moves a tile through shared memory, and syncs the lanes that happen to be active: __syncwarp(__activemask()) waits for nobody else, so a lane that is late has not written what others read
// proof: CUDA guide, __activemask: no convergence is promised; the full mask, or a ballot's, is needed
// assay: launch tr grid=(ceil_div(cols, 32), min(ceil_div(rows, 8), 4096)) block=(32) args=(x, y, rows, cols)

__global__ void tr(const float* x, float* y, int rows, int cols)
{
    __shared__ float tile[8][32];
    const int lane = threadIdx.x, c = blockIdx.x * 32 + lane;
    for (int r0 = blockIdx.y * 8; r0 < rows; r0 += gridDim.y * 8) {
        for (int i = 0; i < 8; ++i)
            if (r0 + i < rows && c < cols) tile[i][lane] = x[(size_t)(r0 + i) * cols + c];
        __syncwarp(__activemask());
        for (int e = lane; e < 256; e += 32) {
            const int r = r0 + e % 8, cc = blockIdx.x * 32 + e / 8;
            if (r < rows && cc < cols) y[(size_t)cc * rows + r] = tile[e % 8][e / 8];
        }
        __syncwarp(__activemask());
    }
}
