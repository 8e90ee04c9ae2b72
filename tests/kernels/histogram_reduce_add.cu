// problem: histogram
// style: byte counters in unions, one set a thread, int4 loads; __reduce_add_sync merges the slices
// assay: temp partial int32 (32, 256)
// assay: launch count_slices grid=(32) block=(64) args=(values, partial, n)
// assay: launch merge_slices grid=(256) block=(32) args=(partial, counts)

union Counters {
    unsigned word;
    unsigned char byte[4];
};

__device__ void flush(Counters (*mine)[64], int* total)
{
    // Each of the 64 threads adds up four bins over all 64 threads' byte counters.
    __syncthreads();
    int sums[4] = {0, 0, 0, 0};
    for (int t = 0; t < 64; ++t) {
        const Counters c = mine[threadIdx.x][(t + threadIdx.x) & 63];
        for (int b = 0; b < 4; ++b) {
            sums[b] += c.byte[b];
        }
    }
    for (int b = 0; b < 4; ++b) {
        total[threadIdx.x * 4 + b] += sums[b];
    }
    __syncthreads();
    for (int w = 0; w < 64; ++w) {
        mine[w][threadIdx.x].word = 0;
    }
    __syncthreads();
}

__global__ void count_slices(const int* values, int* partial, int n)
{
    __shared__ Counters mine[64][64];  // [four bins][thread]
    __shared__ int total[256];
    for (int w = 0; w < 64; ++w) {
        mine[w][threadIdx.x].word = 0;
        if (w < 4) {
            total[w * 64 + threadIdx.x] = 0;
        }
    }
    __syncthreads();
    const int quads = n / 4;
    int since_flush = 0;
    const int per_round = 32 * 64;
    for (int start = 0; start < quads; start += per_round) {  // uniform: all threads flush together
        const int quad = start + blockIdx.x * 64 + threadIdx.x;
        if (quad < quads) {
            const int4 four = reinterpret_cast<const int4*>(values)[quad];
            ++mine[four.x >> 2][threadIdx.x].byte[four.x & 3];
            ++mine[four.y >> 2][threadIdx.x].byte[four.y & 3];
            ++mine[four.z >> 2][threadIdx.x].byte[four.z & 3];
            ++mine[four.w >> 2][threadIdx.x].byte[four.w & 3];
        }
        since_flush += 4;
        if (since_flush > 248) {
            flush(mine, total);
            since_flush = 0;
        }
    }
    if (blockIdx.x == 0 && quads * 4 + threadIdx.x < n) {
        const int value = values[quads * 4 + threadIdx.x];
        ++mine[value >> 2][threadIdx.x].byte[value & 3];
    }
    flush(mine, total);
    for (int bin = threadIdx.x; bin < 256; bin += 64) {
        partial[blockIdx.x * 256 + bin] = total[bin];
    }
}

__global__ void merge_slices(const int* partial, int* counts)
{
    const int sum = __reduce_add_sync(0xffffffffu, partial[threadIdx.x * 256 + blockIdx.x]);
    if (threadIdx.x == 0) {
        counts[blockIdx.x] = sum;
    }
}
