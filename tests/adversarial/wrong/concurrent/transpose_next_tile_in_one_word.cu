// problem: transpose
// class: schedule
// race: barrier
// must: anything but passed
// why: a dynamic scheduler draws the next tile ahead into the same shared word that slower warps have yet to read, with one barrier only between the draw and its use by all
// proof: thread 0 may pass the last barrier, read the number and store the next one while another warp has not read it: that warp takes another tile and its piece of this one is missing
// assay: temp next uint32 (1)
// assay: fill next value=0
// assay: launch turn grid=(64) block=(32, 8) args=(x, y, next, rows, cols)
__global__ void turn(const float* x, float* y, unsigned* next, int rows, int cols)
{
    __shared__ float tile[32][33];
    __shared__ unsigned number;
    const unsigned across = (cols + 31) / 32, tiles = across * ((rows + 31) / 32);
    const int tx = threadIdx.x, ty = threadIdx.y;
    if (tx + ty == 0) number = atomicAdd(next, 1u);
    __syncthreads();
    while (true) {
        const unsigned t = number;
        if (t >= tiles) break;
        const int r0 = t / across * 32, c0 = t % across * 32;
        if (tx + ty == 0) number = atomicAdd(next, 1u);
        for (int r = ty; r < 32; r += 8)
            if (r0 + r < rows && c0 + tx < cols) tile[r][tx] = x[(size_t)(r0 + r) * cols + c0 + tx];
        __syncthreads();
        for (int c = ty; c < 32; c += 8)
            if (c0 + c < cols && r0 + tx < rows) y[(size_t)(c0 + c) * rows + r0 + tx] = tile[tx][c];
        __syncthreads();
    }
}
