// problem: swiglu
// assay: launch swiglu_3d grid=(ceil_div(cols, 16), ceil_div(rows, 16 * 4)) block=(16, 4, 4) args=(gate, up, y, rows, cols)
// style: three-dimensional blocks: columns, rows and groups of rows; a macro for the index
#define AT(row, col) ((long)(row) * cols + (col))

__global__ void swiglu_3d(const float* gate, const float* up, float* y, const int rows, const int cols)
{
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    const int first = (blockIdx.y * blockDim.z + threadIdx.z) * 16 + threadIdx.y;
    if (col < cols)
        for (int row = first; row < first + 16 && row < rows; row += blockDim.y) {
            const float g = gate[AT(row, col)];
            const float e = __expf(-fabsf(g));
            y[AT(row, col)] = __fdividef(g < 0.0f ? g * e : g, 1.0f + e) * up[AT(row, col)];
        }
}
