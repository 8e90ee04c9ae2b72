// problem: relu
// attack: launches only whole blocks of 256
// expect: incorrect
// because: hidden sizes are not multiples of 256
// assay: launch relu grid=(max(1, n // 256)) block=(256) args=(x, y, n)

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}
