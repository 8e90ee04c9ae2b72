// problem: scalar_multiply
// style: bytes of each word taken apart and put together again with prmt and bfe before the product
// assay: launch scale_bytes grid=(min(ceil_div(n, 256), 512)) block=(256) args=(x, y, alpha, n)

__device__ __forceinline__ unsigned reversed(unsigned word)
{
    unsigned result;
    asm("prmt.b32 %0, %1, 0, 0x0123;" : "=r"(result) : "r"(word));
    return result;
}

__global__ void scale_bytes(const unsigned* x, float* y, float alpha, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const unsigned mirrored = reversed(x[i]);
        unsigned low, high;
        asm("bfe.u32 %0, %1, 0, 16;" : "=r"(low) : "r"(mirrored));
        asm("bfe.u32 %0, %1, 16, 16;" : "=r"(high) : "r"(mirrored));
        const unsigned word = __brev(__brev(reversed(high << 16 | low)));
        y[i] = __uint_as_float(word) * alpha;
    }
}
