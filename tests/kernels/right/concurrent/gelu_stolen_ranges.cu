// problem: gelu
// assay: temp ranges uint64 (48)
// assay: launch deal grid=(1) block=(48) args=(ranges, ceil_div(n, 512))
// assay: launch work grid=(48) block=(128) args=(x, y, ranges, n)
// style: work stealing: a block's chunks are a range packed in 64 bits; it takes at the front by atomicCAS, thieves at the end
__global__ void deal(unsigned long long* ranges, unsigned chunks)
{
    const unsigned b = threadIdx.x, each = (chunks + 47) / 48;
    const unsigned from = min(chunks, b * each), to = min(chunks, from + each);
    ranges[b] = (unsigned long long)to << 32 | from;
}

__device__ int take(unsigned long long* range, bool front)
{
    unsigned long long seen = atomicAdd(range, 0ull);
    while (true) {
        const unsigned from = (unsigned)seen, to = (unsigned)(seen >> 32);
        if (from >= to) return -1;
        const unsigned long long wanted = front ? seen + 1 : (unsigned long long)(to - 1) << 32 | from;
        const unsigned long long was = atomicCAS(range, seen, wanted);
        if (was == seen) return front ? from : to - 1;
        seen = was;
    }
}

__global__ void work(const float* x, float* y, unsigned long long* ranges, int n)
{
    __shared__ int chunk;
    for (int victim = 0; victim < 48;) {
        if (threadIdx.x == 0) chunk = take(ranges + (blockIdx.x + victim) % 48, victim == 0);
        __syncthreads();
        const int c = chunk;
        __syncthreads();
        if (c < 0) {
            ++victim;
            continue;
        }
        for (int i = c * 512 + threadIdx.x; i < min(n, c * 512 + 512); i += 128)
            y[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678f));
    }
}
