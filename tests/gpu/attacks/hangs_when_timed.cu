// problem: relu
// attack: hangs in the sixth launch at the timed size
// expect: timeout
// because: the time limit holds while it is timed as well
// rehearse: no
// phase: time
// run_timeout_s: 1.5
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
// assay: launch note grid=(1) block=(1) args=(n)

__device__ volatile int launches;

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    while (launches >= 5) {
    }
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}

__global__ void note(int n)
{
    launches += n == 1 << 24;
}
