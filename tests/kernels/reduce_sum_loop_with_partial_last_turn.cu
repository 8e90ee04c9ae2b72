// problem: reduce_sum
// style: shuffles in a loop whose last turn some lanes have nothing for; a ballot before the branch makes the mask
// assay: fill total value=0
// assay: launch sum grid=(min(ceil_div(n, 128), 32)) block=(128) args=(x, total, n)

__global__ void sum(const float* x, float* total, int n)
{
    float all = 0.0f;
    for (int start = blockIdx.x * 128; start < n; start += gridDim.x * 128) {
        const int i = start + threadIdx.x;
        const unsigned here = __ballot_sync(~0u, i < n);
        if (i < n) {
            float mine = x[i];
            const int count = __popc(here), lane = threadIdx.x % 32;
            for (int o = 16; o > 0; o /= 2) {
                const float other = __shfl_sync(here, mine, lane + o < count ? lane + o : lane);
                if (lane + o < count && lane < o) mine += other;
            }
            if (lane == 0) all += mine;
        }
        __syncwarp();
    }
    if (threadIdx.x % 32 == 0) atomicAdd(total, all);
}
