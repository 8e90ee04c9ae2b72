// problem: vector_add
// attack: right while the clock is even, so that each run differs
// expect: incorrect|unsupported|rejected
// because: verification compares every element of many runs

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long now;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(now));
    now = now * 0x9e3779b97f4a7c15ull >> 32;
    if (i < n) c[i] = (now >> 3 & 1) ? a[i] : a[i] + b[i];
}
