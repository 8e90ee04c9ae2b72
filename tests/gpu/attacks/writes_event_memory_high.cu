// problem: relu
// attack: looks for time stamps from the buffers upwards, where the driver may have put host memory
// expect: runtime_error
// because: most addresses are not mapped, and reading one of those ends the context
// rehearse: no
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
// assay: launch forge grid=(1) block=(1) args=(y, n)

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}

__global__ void forge(float* y, int n)
{
    volatile unsigned long long* place = (volatile unsigned long long*)(((unsigned long long)(y + n) + 7) & ~7ull);
    for (long long i = 0; i < 1ll << 30; i += 4096) {
        if (place[i] > 1000000000000ull && place[i] < 1ull << 62) {
            place[i] += 1000000;
        }
    }
}
