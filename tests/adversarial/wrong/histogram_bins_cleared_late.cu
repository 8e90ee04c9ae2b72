// problem: histogram
// class: shared
// must: anything but passed
// why: blocks take several chunks above 2^20 elements; the bins are cleared for the next chunk without a barrier between that and the adding of the last one: counts are lost or doubled where warps drift apart
// proof: assay grade --size n=1100000 should name the race; on a GPU counts differ from run to run
// assay: fill counts value=0
// assay: launch hist grid=(min(ceil_div(n, 4096), 256)) block=(256) args=(values, counts, n)

__global__ void hist(const int* values, int* counts, int n)
{
    __shared__ int bins[256];
    const int t = threadIdx.x;
    bins[t] = 0;
    __syncthreads();
    for (int chunk = blockIdx.x; chunk * 4096 < n; chunk += gridDim.x) {
        const int end = min(n, (chunk + 1) * 4096);
        for (int i = chunk * 4096 + t; i < end; i += 256) atomicAdd(&bins[values[i]], 1);
        __syncthreads();
        if (bins[255 - t]) atomicAdd(&counts[255 - t], bins[255 - t]);
        if ((chunk + gridDim.x) * 4096 >= n) break;
        bins[t] = 0;
        __syncthreads();
    }
}
