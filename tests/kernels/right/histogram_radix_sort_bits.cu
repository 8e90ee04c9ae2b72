// problem: histogram
// assay: fill counts value=0
// assay: launch sort_and_count grid=(ceil_div(n, 512)) block=(512) args=(values, counts, n)
// style: sorting: eight split passes by one bit each (ballots and a scan of warp totals), then the borders of runs are counted
__global__ void sort_and_count(const int* values, int* counts, int n)
{
    __shared__ int keys[512];
    __shared__ int zeros_of_warp[16];
    const int length = min(512, n - (int)blockIdx.x * 512);
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    keys[t] = t < length ? values[blockIdx.x * 512 + t] : 256;     // the rest sorts to the end
    __syncthreads();
    for (int bit = 0; bit < 9; ++bit) {
        const int key = keys[t];
        const bool zero = !((key >> bit) & 1);
        const unsigned ballot = __ballot_sync(0xffffffffu, zero);
        if (lane == 0) zeros_of_warp[warp] = __popc(ballot);
        __syncthreads();
        int before = __popc(ballot & ((1u << lane) - 1)), all = 0;
        for (int w = 0; w < 16; ++w) {
            if (w < warp) before += zeros_of_warp[w];
            all += zeros_of_warp[w];
        }
        keys[zero ? before : all + t - before] = key;
        __syncthreads();
    }
    if (t < length) {
        const int key = keys[t];
        const bool starts = t == 0 || keys[t - 1] != key;
        const bool ends = t == length - 1 || keys[t + 1] != key;
        if (starts) atomicSub(&counts[key], t);
        if (ends) atomicAdd(&counts[key], t + 1);
    }
}
