// problem: relu
// Does not compile: `value` is declared inside the braces and used outside them.

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float value = x[i];
    }
    y[i] = value > 0.0f ? value : 0.0f;
}
