// problem: histogram
// assay: fill counts value=0
// assay: launch count_lists grid=(ceil_div(n, 2048)) block=(256) args=(values, counts, n)
// style: a lock-free list for each value in shared memory (atomicExch of the head); a thread a bin walks its list
__global__ void count_lists(const int* values, int* counts, int n)
{
    __shared__ int head[256];
    __shared__ short next[2048];
    head[threadIdx.x] = -1;
    __syncthreads();
    const int length = min(2048, n - (int)blockIdx.x * 2048);
    for (int i = threadIdx.x; i < length; i += 256) {
        const int v = values[blockIdx.x * 2048 + i];
        next[i] = (short)atomicExch(&head[v], i);
    }
    __syncthreads();
    int many = 0;
    for (int node = head[threadIdx.x]; node >= 0; node = next[node]) ++many;
    if (many) atomicAdd(&counts[threadIdx.x], many);
}
