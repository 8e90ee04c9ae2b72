// problem: histogram
// assay: fill counts value=0
// assay: launch sort_then_search grid=(ceil_div(n, 1024)) block=(256) args=(values, counts, n)
// style: a bitonic sort of 1024 keys in shared memory, then each thread finds its bin's borders by binary search
__device__ int lower_bound(const int* keys, int length, int value)
{
    int from = 0;
    while (length > 0) {
        const int half = length / 2;
        if (keys[from + half] < value) {
            from += half + 1;
            length -= half + 1;
        } else {
            length = half;
        }
    }
    return from;
}

__global__ void sort_then_search(const int* values, int* counts, int n)
{
    __shared__ int keys[1024];
    for (int i = threadIdx.x; i < 1024; i += 256) {
        const long long at = blockIdx.x * 1024LL + i;
        keys[i] = at < n ? values[at] : 0x7fffffff;
    }
    for (unsigned size = 2; size <= 1024; size <<= 1)
        for (unsigned stride = size / 2; stride > 0; stride >>= 1) {
            __syncthreads();
            for (unsigned t = threadIdx.x; t < 512; t += 256) {
                const unsigned pos = 2 * t - (t & (stride - 1));
                const bool ascending = (pos & size) == 0;
                const int u = keys[pos], v = keys[pos + stride];
                if ((u > v) == ascending) {
                    keys[pos] = v;
                    keys[pos + stride] = u;
                }
            }
        }
    __syncthreads();
    const int many = lower_bound(keys, 1024, threadIdx.x + 1) - lower_bound(keys, 1024, threadIdx.x);
    if (many) atomicAdd(counts + threadIdx.x, many);
}
