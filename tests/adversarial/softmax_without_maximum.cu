// problem: softmax
// attack: leaves out the maximum, so that large inputs overflow
// expect: incorrect
// because: some inputs are large
// assay: launch softmax grid=(rows) block=(32) args=(x, y, rows, cols)

__global__ void softmax(const float* x, float* y, int rows, int cols)
{
    const float* in = x + (size_t)blockIdx.x * cols;
    float sum = 0.0f;
    for (int c = 0; c < cols; ++c) sum += expf(in[c]);
    for (int c = threadIdx.x; c < cols; c += 32) y[(size_t)blockIdx.x * cols + c] = expf(in[c]) / sum;
}
