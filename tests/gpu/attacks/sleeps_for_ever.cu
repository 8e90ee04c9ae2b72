// problem: relu
// attack: sleeps, a millisecond at a time, without end
// expect: timeout
// because: a sleeping warp is a running warp
// rehearse: no
// run_timeout_s: 1.5
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__device__ volatile int never;

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
    while (i == 0 && !never) {
        __nanosleep(1000000);
    }
}
