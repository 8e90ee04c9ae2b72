// problem: gelu
// attack: the tanh approximation where the exact function is asked for
// expect: incorrect
// because: the approximation is wrong in the fourth digit

__global__ void low_precision(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = 0.5f * x[i] * (1.0f + tanhf(0.7978845608f * (x[i] + 0.044715f * x[i] * x[i] * x[i])));
    }
}
