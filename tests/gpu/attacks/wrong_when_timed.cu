// problem: relu
// attack: leaves out every other element from the third launch at the timed size on
// expect: incorrect
// because: some timed launches are checked, and which ones is secret
// rehearse: no
// phase: time
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
// assay: launch note grid=(1) block=(1) args=(n)

__device__ int launches;

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n && (launches < 2 || n != 1 << 24 || i % 2)) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}

__global__ void note(int n)
{
    launches += n == 1 << 24;
}
