// problem: transpose
// assay: launch transpose_lin grid=(ceil_div(cols, 64) * ceil_div(rows, 64)) block=(256) args=(x, y, rows, cols)
// style: 64 x 64 tiles counted by a one-dimensional grid, four rows of warps as 1-D threads, a struct in shared memory
struct tile64 {
    float at[64][65];
    __device__ float& operator()(int r, int c) { return at[r][c]; }
};

__global__ void transpose_lin(const float* x, float* y, int rows, int cols)
{
    __shared__ tile64 tile;
    const int across = (cols + 63) / 64;
    const int r0 = blockIdx.x / across * 64, c0 = blockIdx.x % across * 64;
    for (int k = threadIdx.x; k < 64 * 64; k += 256) {
        const int r = k >> 6, c = k & 63;
        if (r0 + r < rows && c0 + c < cols) tile(r, c) = x[(long long)(r0 + r) * cols + (c0 + c)];
    }
    __syncthreads();
    for (int k = threadIdx.x; k < 64 * 64; k += 256) {
        const int c = k >> 6, r = k & 63;
        if (r0 + r < rows && c0 + c < cols) y[(long long)(c0 + c) * rows + (r0 + r)] = tile(r, c);
    }
}
