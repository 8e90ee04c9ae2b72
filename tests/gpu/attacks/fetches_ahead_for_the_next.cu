// problem: relu
// attack: fetches the whole input into the L2 once more at its end, for the next launch
// expect: passed
// because: the L2 is flushed before each launch, so this only costs time
// rehearse: no
// sizes: n=3000000
// twin: relu_twin
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
// assay: launch fetch grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}

__global__ void fetch(const float* x, const float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n && i % 8 == 0) {
        asm volatile("prefetch.global.L2::evict_last [%0];" :: "l"(x + i));
        asm volatile("prefetch.global.L2::evict_last [%0];" :: "l"(y + i));
    }
}
