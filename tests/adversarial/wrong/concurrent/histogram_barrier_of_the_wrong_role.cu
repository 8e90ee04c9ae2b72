// problem: histogram
// class: schedule
// race: barrier
// must: anything but passed
// why: two warps count into one half of the bins each and two add them up; the named barrier is told 96, the counting warps arrive (64), each adding warp syncs (32), so each adding warp may complete a phase of its own and the other waits for a next round's arrivals
// proof: PTX ISA, bar: 128 threads take part in each phase; with 96 the first adding warp opens it, the second begins the next phase, and the rounds get out of step
// assay: fill counts value=0
// assay: launch hist grid=(min(ceil_div(n, 64), 60)) block=(128) args=(values, counts, n)
__global__ void hist(const int* values, int* counts, int n)
{
    __shared__ int bins[2][256];
    const int warp = threadIdx.x / 32, rounds = ((n + 63) / 64 + gridDim.x - 1) / gridDim.x;
    for (int e = threadIdx.x; e < 512; e += 128) bins[e / 256][e % 256] = 0;
    __syncthreads();
    for (int r = 0; r < rounds; ++r) {
        const int b = r & 1;
        if (warp < 2) {
            const int i = (r * gridDim.x + blockIdx.x) * 64 + threadIdx.x;
            if (i < n) atomicAdd(&bins[b][values[i]], 1);
            asm volatile("bar.arrive 1, 96;" ::: "memory");
            asm volatile("bar.sync 2, 128;" ::: "memory");
        } else {
            asm volatile("bar.sync 1, 96;" ::: "memory");
            for (int e = threadIdx.x - 64; e < 256; e += 64) {
                if (bins[b][e]) atomicAdd(counts + e, bins[b][e]);
                bins[b][e] = 0;
            }
            asm volatile("bar.sync 2, 128;" ::: "memory");
        }
    }
}
