// problem: histogram
// style: video instructions in inline PTX: vset4 with .add counts equal bytes, vset with a selector those left over
// assay: fill counts value=0
// assay: launch count_video grid=(min(ceil_div(n, 1024), 64)) block=(256) args=(values, counts, n)

__device__ unsigned add_equal_bytes(unsigned a, unsigned b, unsigned sum)
{
    unsigned r;
    asm("vset4.u32.u32.eq.add %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(sum));
    return r;
}

__device__ unsigned add_equal_first(unsigned a, unsigned b, unsigned sum)
{
    unsigned r;
    asm("vset.u32.u32.eq.add %0, %1.b0, %2.b0, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(sum));
    return r;
}

__device__ unsigned with_byte(unsigned word, unsigned value)
{
    unsigned r;
    asm("{ .reg .u32 t; vshl.u32.u32.u32.clamp t, %1, %2.b0; vadd.u32.u32.u32.sat %0.b0, %3.b0, 0, t; }"
        : "=r"(r)
        : "r"(word), "r"(8u), "r"(value));
    return r;
}

__global__ void count_video(const int* values, int* counts, int n)
{
    __shared__ unsigned packed[256];
    const unsigned bin = threadIdx.x, four_bins = bin * 0x01010101u;
    unsigned count = 0;
    for (int start = blockIdx.x * 1024; start < n; start += gridDim.x * 1024) {
        const int end = min(n - start, 1024), first = start + 4 * threadIdx.x;
        unsigned word = 0;
        for (int k = 3; k >= 0; --k) word = with_byte(word, first + k < n ? values[first + k] : 0);
        packed[threadIdx.x] = word;
        __syncthreads();
        for (int at = 0; at < end / 4; ++at) count = add_equal_bytes(packed[at], four_bins, count);
        for (int k = 0; k < end % 4; ++k) count = add_equal_first(packed[end / 4] >> 8 * k, bin, count);
        __syncthreads();
    }
    if (count > 0) atomicAdd(counts + bin, (int)count);
}
