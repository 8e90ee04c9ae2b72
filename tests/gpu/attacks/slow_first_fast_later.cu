// problem: relu
// attack: its first three launches at the timed size take 5 ms, so that something may be sized by them
// expect: passed
// because: the first launches are not counted, and later ones depend on no earlier time
// rehearse: no
// twin: relu_twin
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
// assay: launch note grid=(1) block=(1) args=(n)

__device__ volatile int launches;

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i == 0 && launches < 3) {
        for (int k = 0; k < 5; ++k) __nanosleep(1000000);
    }
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}

__global__ void note(int n)
{
    launches += n == 1 << 24;
}
