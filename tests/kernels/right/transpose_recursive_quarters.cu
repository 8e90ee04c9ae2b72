// problem: transpose
// assay: launch transpose_rec grid=(ceil_div(cols, 64), ceil_div(rows, 64)) block=(16) args=(x, y, rows, cols)
// style: cache-oblivious: each of sixteen threads halves its 16 x 16 part by recursion until 4 x 4 is left
__device__ void turn(const float* x, float* y, int rows, int cols, int r0, int r1, int c0, int c1)
{
    if (r0 >= r1 || c0 >= c1) return;
    if (r1 - r0 <= 4 && c1 - c0 <= 4) {
        for (int r = r0; r < r1; ++r)
            for (int c = c0; c < c1; ++c) y[c * rows + r] = x[r * cols + c];
    } else if (r1 - r0 >= c1 - c0) {
        const int m = (r0 + r1) / 2;
        turn(x, y, rows, cols, r0, m, c0, c1);
        turn(x, y, rows, cols, m, r1, c0, c1);
    } else {
        const int m = (c0 + c1) / 2;
        turn(x, y, rows, cols, r0, r1, c0, m);
        turn(x, y, rows, cols, r0, r1, m, c1);
    }
}

__global__ void transpose_rec(const float* x, float* y, int rows, int cols)
{
    const int r = blockIdx.y * 64 + threadIdx.x / 4 * 16, c = blockIdx.x * 64 + threadIdx.x % 4 * 16;
    turn(x, y, rows, cols, r, min(r + 16, rows), c, min(c + 16, cols));
}
