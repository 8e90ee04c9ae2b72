// problem: histogram
// class: memory
// must: anything but passed
// why: counts are not cleared: what is no possible count (below 0 or above n) is taken for "not begun"; garbage that is a possible count, such as that of the launch before, is kept
// proof: run twice on the same output: the counts double
// assay: launch hist grid=(ceil_div(n, 1024)) block=(256) args=(values, counts, n)
__global__ void hist(const int* values, int* counts, int n)
{
    __shared__ int h[256]; h[threadIdx.x] = 0; __syncthreads();
    for (int k = 0; k < 4; k++) { int i = blockIdx.x * 1024 + k * 256 + threadIdx.x; if (i < n) atomicAdd(&h[values[i]], 1); }
    __syncthreads();
    int add = h[threadIdx.x], *c = &counts[threadIdx.x];
    int old = atomicAdd(c, 0), seen;
    do { seen = old; int base = seen < 0 || seen > n ? 0 : seen; old = atomicCAS(c, seen, base + add); } while (old != seen);
}
