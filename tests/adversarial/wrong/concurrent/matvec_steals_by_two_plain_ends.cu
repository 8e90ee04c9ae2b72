// problem: matvec
// class: schedule
// race: lock
// must: anything but passed
// why: work stealing on a range of two separate words: the owner takes at the front, the thief at the end, each by its own atomicAdd and a look at the other end, so both may take the last row group and add it twice
// proof: the check of one end and the move of the other are two accesses; the packed 64-bit CAS is what makes them one
// assay: temp ends int32 (16 * 2)
// assay: fill y value=0
// assay: launch deal grid=(1) block=(16) args=(ends, m)
// assay: launch work grid=(32) block=(64) args=(a, x, y, ends, m, k)
__global__ void deal(int* ends, int m)
{
    const int b = threadIdx.x, each = (m + 15) / 16;
    ends[2 * b] = min(m, b * each);
    ends[2 * b + 1] = min(m, b * each + each);
}

__global__ void work(const float* a, const float* x, float* y, int* ends, int m, int k)
{
    __shared__ int taken;
    const int range = blockIdx.x / 2, lane = threadIdx.x % 32;
    while (true) {
        if (threadIdx.x == 0) {
            taken = -1;
            if (blockIdx.x % 2 == 0) {
                const int end = atomicAdd(ends + 2 * range + 1, 0), row = atomicAdd(ends + 2 * range, 1);
                if (row < end) taken = row;
            } else {
                const int front = atomicAdd(ends + 2 * range, 0), row = atomicAdd(ends + 2 * range + 1, -1) - 1;
                if (row >= front) taken = row;
            }
        }
        __syncthreads();
        const int row = taken;
        __syncthreads();
        if (row < 0) break;
        float s = 0.0f;
        for (int l = threadIdx.x; l < k; l += 64) s += a[(size_t)row * k + l] * x[l];
        for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
        if (lane == 0) atomicAdd(y + row, s);
    }
}
