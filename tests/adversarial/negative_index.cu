// problem: transpose
// attack: writes before the start of the output
// expect: runtime_error
// because: a write outside a buffer is never harmless
// fault: out_of_bounds
// assay: launch transpose grid=(ceil_div(rows * cols, 256)) block=(256) args=(x, y, rows, cols)

__global__ void transpose(const float* x, float* y, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) {
        y[i] = x[i % rows * cols + i / rows];
        y[-1 - i] = 0.0f;  // HERE
    }
}
