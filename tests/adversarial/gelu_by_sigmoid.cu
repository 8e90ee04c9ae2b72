// problem: gelu
// attack: x * sigmoid(1.702 x)
// expect: incorrect
// because: the approximation is wrong in the second digit

__global__ void low_precision(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = x[i] / (1.0f + expf(-1.702f * x[i]));
    }
}
