// problem: swiglu
// attack: stops the kernel with a trap
// expect: runtime_error
// because: a trap ends the launch with an error
// fault: trap
// assay: launch swiglu grid=(ceil_div(rows * cols, 256)) block=(256) args=(gate, up, y, rows, cols)

__global__ void swiglu(const float* gate, const float* up, float* y, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == rows * cols - 1) {
        __trap();  // HERE
    }
    if (i < rows * cols) {
        y[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
    }
}
