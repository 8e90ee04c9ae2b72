// problem: reduce_sum
// class: schedule
// race: lock
// must: anything but passed
// why: two blocks exclude each other by Peterson's algorithm on volatile words: it needs a fence.sc between the store of one's own wish and the load of the other's; both may read the other's wish as not there
// proof: store buffering is allowed for relaxed accesses (PTX litmus test SB); then both add to the same old total
// assay: temp want int32 (2)
// assay: temp turn int32 (1)
// assay: fill want value=0
// assay: fill turn value=0
// assay: fill total value=0
// assay: launch sum grid=(2) block=(256) cooperative args=(x, want, turn, total, n)

__global__ void sum(const float* x, volatile int* want, volatile int* turn, volatile float* total, int n)
{
    __shared__ float warps[8];
    const int me = blockIdx.x, pieces = (n + 4095) / 4096;
    for (int piece = me; piece < pieces; piece += 2) {
        float s = 0.0f;
        for (int i = piece * 4096 + threadIdx.x; i < min(n, piece * 4096 + 4096); i += 256) s += x[i];
        for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
        if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = s;
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int w = 1; w < 8; ++w) s += warps[w];
            want[me] = 1;
            *turn = 1 - me;
            while (want[1 - me] && *turn == 1 - me) { }
            *total = *total + s;
            want[me] = 0;
        }
        __syncthreads();
    }
}
