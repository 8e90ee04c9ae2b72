// problem: histogram
// assay: fill counts value=0
// assay: launch count_red grid=(ceil_div(n, 4 * 96)) block=(96) args=(values, counts, n)
// style: PTX: red.shared.add on a 32-bit address, red.relaxed.gpu.global.add to merge, bfe takes the byte, v4 loads
__global__ void count_red(const int* values, int* counts, int n)
{
    __shared__ unsigned bins[256];
    for (int b = threadIdx.x; b < 256; b += blockDim.x) bins[b] = 0;
    __syncthreads();
    const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(bins));
    auto add = [base](int v) {
        unsigned byte;
        asm("bfe.u32 %0, %1, 0, 8;" : "=r"(byte) : "r"(v));
        asm volatile("red.shared.add.u32 [%0], 1;" ::"r"(base + 4 * byte) : "memory");
    };
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i + 4 <= n) {
        int4 v;
        asm volatile("ld.global.nc.v4.s32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(values + i));
        add(v.x), add(v.y), add(v.z), add(v.w);
    } else {
        for (int k = i; k < n; ++k) add(values[k]);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += blockDim.x) {
        if (bins[b]) asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(counts + b), "r"(bins[b]) : "memory");
    }
}
