// problem: relu
// attack: computes in its input from the third launch at the timed size on
// expect: rejected
// because: inputs are compared after launches that nobody can foresee
// rehearse: no
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
// assay: launch note grid=(1) block=(1) args=(n)

__device__ int launches;

__global__ void work(float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
        if (launches >= 2 && i == n - 1) x[i] = -x[i];
    }
}

__global__ void note(int n)
{
    launches += n == 1 << 24;
}
