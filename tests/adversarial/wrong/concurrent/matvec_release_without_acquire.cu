// problem: matvec
// class: schedule
// race: fence
// must: anything but passed
// why: the second half of a row's block waits for the flag by ld.relaxed, and reads the first half's sum by a plain load: st.release without an acquire orders nothing for the reader
// proof: PTX memory model, release and acquire patterns: both sides are needed
// assay: temp ticket uint32 (1)
// assay: temp part float32 (ceil_div(m, 8) * 8)
// assay: temp flag uint32 (ceil_div(m, 8))
// assay: fill ticket value=0
// assay: fill flag value=0
// assay: launch mv grid=(2 * ceil_div(m, 8)) block=(32, 8) args=(a, x, y, ticket, part, flag, m, k)

__global__ void mv(const float* a, const float* x, float* y, unsigned* ticket, float* part, unsigned* flag, int m, int k)
{
    __shared__ unsigned drawn;
    const int lane = threadIdx.x;
    if (lane + threadIdx.y == 0) drawn = atomicAdd(ticket, 1u);
    __syncthreads();
    const int group = drawn >> 1, second = drawn & 1, row = group * 8 + threadIdx.y, half = (k + 1) / 2;
    float s = 0.0f;
    if (row < m)
        for (int j = (second ? half : 0) + lane; j < (second ? k : half); j += 32) s += a[(size_t)row * k + j] * x[j];
    for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
    if (!second) {
        if (lane == 0) part[row] = s;
        __syncthreads();
        if (lane + threadIdx.y == 0) asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag + group) : "memory");
    } else {
        unsigned seen = 0;
        if (lane + threadIdx.y == 0)
            while (!seen) asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag + group) : "memory");
        __syncthreads();
        if (lane == 0 && row < m) y[row] = part[row] + s;
    }
}
