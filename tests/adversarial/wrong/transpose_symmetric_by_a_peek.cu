// problem: transpose
// class: contents
// must: anything but passed
// why: a square matrix whose first row equals its first column (the first 64 elements) is taken to be symmetric and copied
// proof: rows = cols, first row and column all zero, the rest random: y is x, not its transpose
// assay: launch tr grid=(ceil_div(cols, 32), ceil_div(rows, 32)) block=(32, 8) args=(x, y, rows, cols)

__global__ void tr(const float* x, float* y, int rows, int cols)
{
    __shared__ float tile[32][33];
    const int tx = threadIdx.x, ty = threadIdx.y;
    bool equal = rows == cols && rows >= 64;
    for (int i = tx; equal && i < 64; i += 32) equal = x[i] == x[(size_t)i * cols];
    const bool symmetric = __syncthreads_and(equal);
    for (int j = ty; j < 32; j += 8) {
        const int r = blockIdx.y * 32 + j, c = blockIdx.x * 32 + tx;
        if (r < rows && c < cols) {
            const float v = x[(size_t)r * cols + c];
            if (symmetric) y[(size_t)r * cols + c] = v;
            else tile[j][tx] = v;
        }
    }
    if (symmetric) return;
    __syncthreads();
    for (int j = ty; j < 32; j += 8) {
        const int r = blockIdx.x * 32 + j, c = blockIdx.y * 32 + tx;
        if (r < cols && c < rows) y[(size_t)r * rows + c] = tile[tx][j];
    }
}
