// problem: reduce_sum
// class: schedule
// must: anything but passed
// why: a hand-made float add by compare-and-swap gives up after three failures, and its block's sum is lost under contention
// proof: four blocks that write total between a block's read and its swap; on a GPU with many blocks sums are missing
// assay: fill total value=0
// assay: launch sum grid=(ceil_div(n, 512)) block=(256) args=(x, total, n)

__device__ void add_float(float* address, float value)
{
    unsigned* word = reinterpret_cast<unsigned*>(address);
    unsigned seen = *reinterpret_cast<volatile unsigned*>(word);
    for (int attempt = 0; attempt < 3; ++attempt) {
        const unsigned found = atomicCAS(word, seen, __float_as_uint(__uint_as_float(seen) + value));
        if (found == seen) return;
        seen = found;
    }
}

__global__ void sum(const float* x, float* total, int n)
{
    __shared__ float s[256];
    const int i = blockIdx.x * 512 + threadIdx.x;
    s[threadIdx.x] = (i < n ? x[i] : 0.f) + (i + 256 < n ? x[i + 256] : 0.f);
    for (int h = 128; h > 0; h >>= 1) {
        __syncthreads();
        if (threadIdx.x < h) s[threadIdx.x] += s[threadIdx.x + h];
    }
    if (threadIdx.x == 0) add_float(total, s[0]);
}
