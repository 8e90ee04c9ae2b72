// problem: swiglu
// assay: launch swiglu_f64 grid=(ceil_div(cols, 128), min(rows, 4096)) block=(128) args=(gate, up, y, rows, cols)
// style: a column a thread, rows by stride over gridDim.y; all in double
__global__ void swiglu_f64(const float* gate, const float* up, float* y, int rows, int cols)
{
    const int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= cols) return;
    for (int r = blockIdx.y; r < rows; r += gridDim.y) {
        const size_t i = size_t(r) * cols + c;
        const double g = gate[i];
        y[i] = float(g / (1.0 + exp(-g)) * up[i]);
    }
}
