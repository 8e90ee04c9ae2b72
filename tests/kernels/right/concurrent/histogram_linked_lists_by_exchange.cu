// problem: histogram
// assay: temp heads int32 (256)
// assay: temp next int32 (ceil_div(n, 256) * 256)
// assay: temp sizes int32 (ceil_div(n, 256) * 256)
// assay: fill heads value=-1
// assay: launch push grid=(ceil_div(n, 256)) block=(256) args=(values, heads, next, sizes, n)
// assay: launch walk grid=(256) block=(1) args=(heads, next, sizes, counts)
// style: lock-free lists: a block pushes one node for each value it has seen by atomicExch of the head; the next launch walks them
__global__ void push(const int* values, int* heads, int* next, int* sizes, int n)
{
    __shared__ int bins[256];
    bins[threadIdx.x] = 0;
    __syncthreads();
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) atomicAdd(&bins[values[i]], 1);
    __syncthreads();
    if (bins[threadIdx.x]) {
        sizes[i] = bins[threadIdx.x];
        next[i] = atomicExch(heads + threadIdx.x, i);
    }
}

__global__ void walk(const int* heads, const int* next, const int* sizes, int* counts)
{
    int all = 0;
    for (int node = heads[blockIdx.x]; node >= 0; node = next[node]) all += sizes[node];
    counts[blockIdx.x] = all;
}
