// problem: relu
// attack: every thread loops for ever
// expect: timeout
// because: a run has a limit
// run_timeout_s: 3
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void relu(const float* x, volatile float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    while (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}
