// problem: relu
// attack: every thread loops for ever
// expect: timeout
// message: times what the naive kernel takes
// because: a run may execute so many instructions, on a slow machine too
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void relu(const float* x, volatile float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    while (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}
