// problem: layer_norm
// attack: the bias alone: right where a row is constant
// expect: incorrect
// because: only one kind of input has constant rows

__global__ void bias_only(const float* x, const float* weight, const float* bias, float* y, float eps, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) {
        y[i] = bias[i % cols];
    }
}
