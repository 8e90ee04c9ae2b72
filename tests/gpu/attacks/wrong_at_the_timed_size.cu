// problem: relu
// attack: does half of the work where the size is the published one for timing
// expect: incorrect
// because: the timed size is verified as well
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n && (n < 1 << 24 || i < n / 2)) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}
