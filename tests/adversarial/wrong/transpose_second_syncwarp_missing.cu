// problem: transpose
// class: warp
// must: anything but passed
// why: a warp moves several 32 x 8 strips through one piece of shared memory; __syncwarp stands between write and read, but not between the reads and the writes of the next strip
// proof: a lane that runs ahead overwrites what another has still to read (CUDA guide, independent thread scheduling)
// assay: launch strips grid=(ceil_div(cols, 8), ceil_div(rows, 128)) block=(32) args=(x, y, rows, cols)

__global__ void strips(const float* __restrict__ x, float* __restrict__ y, int rows, int cols)
{
    __shared__ float strip[8][33];
    const int lane = threadIdx.x, c0 = blockIdx.x * 8;
    for (int step = 0; step < 4; ++step) {
        const int r0 = blockIdx.y * 128 + step * 32;
        for (int i = 0; i < 8; ++i) {
            const int r = r0 + i * 4 + (lane >> 3), c = c0 + (lane & 7);
            if (r < rows && c < cols) strip[lane & 7][i * 4 + (lane >> 3)] = x[(size_t)r * cols + c];
        }
        __syncwarp();
        for (int i = 0; i < 8; ++i)
            if (r0 + lane < rows && c0 + i < cols) y[(size_t)(c0 + i) * rows + r0 + lane] = strip[i][lane];
    }
}
