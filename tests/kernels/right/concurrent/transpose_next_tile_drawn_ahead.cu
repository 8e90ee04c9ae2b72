// problem: transpose
// assay: temp next uint32 (1)
// assay: fill next value=0
// assay: launch turn grid=(64) block=(32, 8) args=(x, y, next, rows, cols)
// style: dynamic scheduler: the next tile's number is drawn while this one is moved, two words in turn, one barrier behind the loads
__global__ void turn(const float* x, float* y, unsigned* next, int rows, int cols)
{
    __shared__ float tile[32][33];
    __shared__ unsigned number[2];
    const unsigned across = (cols + 31) / 32, tiles = across * ((rows + 31) / 32);
    const int tx = threadIdx.x, ty = threadIdx.y;
    if (tx + ty == 0) number[0] = atomicAdd(next, 1u);
    __syncthreads();
    for (int round = 0;; round ^= 1) {
        const unsigned t = number[round];
        if (t >= tiles) break;
        if (tx + ty == 0) number[round ^ 1] = atomicAdd(next, 1u);
        const int r0 = t / across * 32, c0 = t % across * 32;
        for (int r = ty; r < 32; r += 8)
            if (r0 + r < rows && c0 + tx < cols) tile[r][tx] = x[(size_t)(r0 + r) * cols + c0 + tx];
        __syncthreads();
        for (int c = ty; c < 32; c += 8)
            if (c0 + c < cols && r0 + tx < rows) y[(size_t)(c0 + c) * rows + r0 + tx] = tile[tx][c];
        __syncthreads();
    }
}
