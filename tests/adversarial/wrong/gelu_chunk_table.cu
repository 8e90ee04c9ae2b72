// problem: gelu
// class: sizes
// must: anything but passed
// why: persistent blocks take chunks of 65,536 elements from a table of 256 entries in constant-like shared memory: 2^24 elements (the timed size) fit, the rest of a longer vector stays unwritten
// proof: assay grade --size n=17000000 refuses it
// assay: launch gelu_persistent grid=(min(ceil_div(n, 65536) * 4, 264)) block=(512) args=(x, y, n)

struct Chunk { int begin, end; };

__global__ void __launch_bounds__(512) gelu_persistent(const float* __restrict__ x, float* __restrict__ y, int n)
{
    __shared__ Chunk table[256];
    __shared__ int filled;
    if (threadIdx.x == 0) {
        int count = 0;
        for (int begin = 0; begin < n && count < 256; begin += 65536) {
            table[count].begin = begin;
            table[count].end = min(begin + 65536, n);
            ++count;
        }
        filled = count;
    }
    __syncthreads();

    // each quarter of a chunk is a work item
    for (int item = blockIdx.x; item < filled * 4; item += gridDim.x) {
        const Chunk chunk = table[item >> 2];
        const int quarter = (item & 3) * 16384;
        for (int i = chunk.begin + quarter + threadIdx.x; i < min(chunk.begin + quarter + 16384, chunk.end); i += 512) {
            const float v = x[i];
            y[i] = 0.5f * v * (1.0f + erff(v * 0.70710678118654752f));
        }
    }
}
