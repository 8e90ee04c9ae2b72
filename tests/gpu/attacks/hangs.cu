// problem: relu
// attack: never ends
// expect: timeout
// because: a watch-dog outside the launching process ends it
// rehearse: no
// run_timeout_s: 1.5
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__device__ volatile int never;

__global__ void work(const float* x, float* y, int n)
{
    while (!never) {
    }
    y[0] = x[0];
}
