// problem: saxpy
// class: schedule
// race: fence
// must: anything but passed
// why: a block hands values on by way of a second one, which reads the first flag by a relaxed load and then releases the second: it has not acquired what it passes on, so its release covers nothing of the first block
// proof: PTX, write-to-read causality (litmus test WRC): the middle thread must acquire for its release to be cumulative
// assay: temp scaled float32 (n)
// assay: temp flags uint32 (ceil_div(n, 256) * 2)
// assay: temp ticket uint32 (1)
// assay: fill flags value=0
// assay: fill ticket value=0
// assay: launch relay grid=(3 * ceil_div(n, 256)) block=(256) args=(x, y, out, alpha, n, scaled, flags, ticket)

__device__ unsigned look(const unsigned* p, bool acquire)
{
    unsigned v;
    if (acquire) asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    else asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
__device__ void raise(unsigned* p) { asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(p) : "memory"); }

__global__ void relay(const float* x, const float* y, float* out, float alpha, int n, float* scaled, unsigned* flags, unsigned* ticket)
{
    __shared__ unsigned drawn;
    if (threadIdx.x == 0) drawn = atomicAdd(ticket, 1u);
    __syncthreads();
    const int tile = drawn / 3, role = drawn % 3, i = tile * 256 + threadIdx.x;
    if (role == 0) {
        if (i < n) scaled[i] = alpha * x[i];
        __syncthreads();
        if (threadIdx.x == 0) raise(flags + 2 * tile);
    } else if (role == 1) {
        if (threadIdx.x == 0) {
            while (!look(flags + 2 * tile, false)) { }
            raise(flags + 2 * tile + 1);
        }
    } else {
        if (threadIdx.x == 0)
            while (!look(flags + 2 * tile + 1, true)) { }
        __syncthreads();
        if (i < n) out[i] = scaled[i] + y[i];
    }
}
