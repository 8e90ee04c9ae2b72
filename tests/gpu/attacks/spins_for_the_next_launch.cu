// problem: relu
// attack: its first launch waits for a sign of the second, to be still running when the second is timed
// expect: timeout
// because: launches of a plan run one after another, so the sign never comes
// rehearse: no
// run_timeout_s: 1.5
// assay: launch waits grid=(1) block=(1) args=()
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__device__ volatile int sign;

__global__ void waits()
{
    while (!sign) {
    }
}

__global__ void work(const float* x, float* y, int n)
{
    sign = 1;
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}
