// problem: relu
// attack: reads a wild address in the sixth launch at the timed size
// expect: runtime_error
// because: a fault in a timed launch is a fault
// rehearse: no
// phase: time
// fault: out_of_bounds
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
// assay: launch note grid=(1) block=(1) args=(n)

__device__ int launches;

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i + (launches >= 5 ? 1ll << 38 : 0)], 0.0f);
    }
}

__global__ void note(int n)
{
    launches += n == 1 << 24;
}
