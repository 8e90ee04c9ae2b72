// problem: relu
// attack: all is right but for one warp that never ends
// expect: timeout
// because: a launch ends when its last warp does
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
    if (blockIdx.x == 0 && threadIdx.x < 32) {
        while (!never) {
        }
    }
}
