// problem: relu
// attack: changes the input so that the wrong answer is right for it
// expect: rejected
// because: inputs must come back unchanged, and the reference never sees the changed ones

__global__ void relu(float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        x[i] = 1.0f;
        y[i] = 1.0f;
    }
}
