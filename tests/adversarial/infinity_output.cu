// problem: gelu
// attack: infinity wherever the right answer is positive
// expect: incorrect
// because: infinity where the reference has none is wrong

__global__ void gelu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = x[i] > 0.0f ? INFINITY : 0.5f * x[i] * erfcf(-x[i] * 0.70710678f);
    }
}
