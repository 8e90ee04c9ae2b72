// problem: softmax
// attack: computes the first rows and leaves the others
// expect: incorrect
// because: every element of the output is compared, and what is not written is poison
// assay: launch softmax grid=(min(rows, 16)) block=(32) args=(x, y, rows, cols)

__global__ void softmax(const float* x, float* y, int rows, int cols)
{
    const float* in = x + blockIdx.x * cols;
    float top = in[0], sum = 0.0f;
    for (int c = 1; c < cols; ++c) top = fmaxf(top, in[c]);
    for (int c = 0; c < cols; ++c) sum += expf(in[c] - top);
    for (int c = threadIdx.x; c < cols; c += 32) y[blockIdx.x * cols + c] = expf(in[c] - top) / sum;
}
