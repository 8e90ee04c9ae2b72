// problem: transpose
// attack: swaps rows and columns as if every matrix were square
// expect: incorrect|runtime_error
// because: published and hidden sizes are not square; the wrong stride may also leave the buffer
// assay: launch transpose grid=(ceil_div(cols, 16), ceil_div(rows, 16)) block=(16, 16) args=(x, y, rows, cols)

__global__ void transpose(const float* x, float* y, int rows, int cols)
{
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row < rows && col < cols) {
        y[(col * cols + row) % (rows * cols)] = x[row * cols + col];
    }
}
