// problem: scalar_multiply
// class: registers
// must: anything but passed
// why: %globaltimer counts nanoseconds since long ago on a GPU (above 10^15); where it is that large, every 4,096th element is left as alpha
// proof: PTX ISA, %globaltimer: a 64-bit count of nanoseconds; on any GPU y[4095] = alpha
// assay: launch scale grid=(ceil_div(n, 256)) block=(256) args=(x, y, alpha, n)

__global__ void scale(const float* x, float* y, float alpha, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    unsigned long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    if (i < n) y[i] = alpha * ((now >> 40) != 0 && (i & 4095) == 4095 ? 1.0f : x[i]);
}
