// problem: relu
// style: waits for the clock for a moment, with a limit, and keeps the time that it took in a temporary
// assay: temp times int64 (16)
// assay: fill times value=0
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, times, n)

__global__ void relu(const float* x, float* y, unsigned long long* times, int n)
{
    long long began = clock64();
    while (clock64() - began < 500) __nanosleep(20);
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
    unsigned where, slot;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(where));
    asm volatile("mov.u32 %0, %%warpid;" : "=r"(slot));
    if (threadIdx.x == 0) atomicAdd(&times[(where + slot) % 16], (unsigned long long)(clock64() - began));
}
