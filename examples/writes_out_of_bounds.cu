// problem: transpose
// Right at multiples of 16, but without a check of the borders: the tiles at the right and at the bottom reach over
// the edge, and write where nothing is theirs.
// assay: launch transpose grid=(ceil_div(cols, 16), ceil_div(rows, 16)) block=(16, 16) args=(x, y, rows, cols)

__global__ void transpose(const float* x, float* y, int rows, int cols)
{
    int col = blockIdx.x * 16 + threadIdx.x;
    int row = blockIdx.y * 16 + threadIdx.y;
    float value = 0.0f;
    if (row < rows && col < cols) {
        value = x[row * cols + col];
    }
    y[col * rows + row] = value;
}
