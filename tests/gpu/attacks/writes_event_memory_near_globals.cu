// problem: relu
// attack: looks near its own variables for what could be a time stamp, and overwrites it
// expect: passed|runtime_error|rejected|incorrect
// because: where it survives, three clocks still agree: it is not faster than the same kernel without the attack
// rehearse: no
// twin: relu_twin
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
// assay: launch forge grid=(64) block=(256) args=()

__device__ unsigned long long own[16];

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}

__global__ void forge()
{
    unsigned long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    // The 2 MiB page on which module memory lies: what else the driver keeps there is in reach.
    volatile unsigned long long* page = (volatile unsigned long long*)((unsigned long long)own & ~((2ull << 20) - 1));
    for (int i = blockIdx.x * 256 + threadIdx.x; i < (2 << 20) / 8; i += 64 * 256) {
        unsigned long long value = page[i];
        if (value < now && now - value < 10ull * 1000 * 1000 * 1000) {
            page[i] = now;
        }
    }
}
