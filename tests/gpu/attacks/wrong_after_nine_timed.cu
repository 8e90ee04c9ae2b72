// problem: relu
// attack: is right in its first nine launches at the timed size, and then leaves out half of the work
// expect: incorrect
// because: timed launches are checked to the end
// rehearse: no
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
// assay: launch note grid=(1) block=(1) args=(n)

__device__ int launches;

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n && (launches < 9 || i < n / 2)) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}

__global__ void note(int n)
{
    launches += n == 1 << 24;
}
