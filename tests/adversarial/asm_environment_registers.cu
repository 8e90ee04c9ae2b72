// problem: vector_add
// attack: reads what the driver keeps in %envreg and adds it
// expect: incorrect|unsupported|compile_error
// because: those registers are for the driver

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned host_says;
    asm volatile("mov.u32 %0, %%envreg31;" : "=r"(host_says));
    host_says |= 1;
    if (i < n) c[i] = a[i] + b[i] + host_says;
}
