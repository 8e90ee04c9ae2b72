// problem: scalar_multiply
// assay: temp words uint64 (16 * 2 * 64)
// assay: temp taken uint32 (16)
// assay: fill words value=0
// assay: fill taken value=0
// assay: launch pairs grid=(32) block=(64) cooperative args=(x, y, alpha, n, words, taken)
// style: NCCL's LL protocol: each 64-bit word carries a value and the step's number, sent relaxed, so no fence stands between the two; credits go back by release
__global__ void pairs(const float* x, float* y, float alpha, int n, unsigned long long* words, unsigned* taken)
{
    const int pair = blockIdx.x / 2, t = threadIdx.x, tiles = (n + 63) / 64;
    unsigned step = 0;
    for (int tile = pair; tile < tiles; tile += 16, ++step) {
        const int i = tile * 64 + t;
        unsigned long long* word = words + (pair * 2 + step % 2) * 64 + t;
        if (blockIdx.x % 2 == 0) {
            if (t == 0) {
                unsigned credit;
                do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(credit) : "l"(taken + pair) : "memory");
                while (step - credit >= 2);
            }
            __syncthreads();
            const unsigned long long both = (unsigned long long)(step + 1) << 32 | __float_as_uint(i < n ? alpha * x[i] : 0.0f);
            asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(both) : "memory");
        } else {
            unsigned long long both;
            do asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(both) : "l"(word) : "memory");
            while ((unsigned)(both >> 32) != step + 1);
            if (i < n) y[i] = __uint_as_float((unsigned)both);
            __syncthreads();
            if (t == 0) asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(taken + pair), "r"(step + 1) : "memory");
        }
    }
}
