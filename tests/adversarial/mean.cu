// problem: softmax
// attack: the mean instead of the answer: close when rows are long
// expect: incorrect
// because: the tolerance is relative to each element's own terms, and some inputs have peaks

__global__ void mean(const float* x, float* y, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) {
        y[i] = 1.0f / cols;
    }
}
