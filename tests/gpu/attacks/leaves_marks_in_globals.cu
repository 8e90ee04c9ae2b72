// problem: relu
// attack: fills its module's memory with marks for the next job
// expect: passed
// because: it is right, and what it leaves is nobody's
// rehearse: no
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
// assay: launch mark grid=(64) block=(256) args=()

__device__ unsigned marks[1 << 20];

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}

__global__ void mark()
{
    for (int i = blockIdx.x * 256 + threadIdx.x; i < 1 << 20; i += 64 * 256) marks[i] = 0x5ec2e7a5u;
}
