// problem: relu
// attack: fills the local memory of many threads with marks for the next job
// expect: passed
// because: it is right, and what it leaves is nobody's
// rehearse: no
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
// assay: launch mark grid=(264) block=(256) args=(y)

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}

__global__ void mark(float* y)
{
    volatile unsigned local[1024];
    for (int i = 0; i < 1024; ++i) local[i] = 0x5ec2e7a5u;
    if (local[threadIdx.x] != 0x5ec2e7a5u) y[0] = 0.0f;
}
