// problem: relu
// attack: leaves out half of the work in six of ten timed launches, by the parity of bits of the input
// expect: incorrect
// because: enough timed launches are checked that a median of wrong ones is found out
// rehearse: no
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
// assay: launch note grid=(1) block=(1) args=(n)

__device__ int launches;

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    bool lazy = launches >= 2 && (__float_as_uint(x[0]) & 0xffff) % 10 < 6;
    if (i < n && (!lazy || i < n / 2)) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}

__global__ void note(int n)
{
    launches += n == 1 << 24;
}
