// problem: prefix_sum
// class: schedule
// race: scope
// must: anything but passed
// why: a chain of blocks hands its carry on by st.release.cta and ld.acquire.cta: release and acquire, but for one block only
// proof: PTX: the scope of both must include the other thread; .gpu is needed
// assay: temp flags int32 (ceil_div(n, 512) + 1)
// assay: temp carry float32 (ceil_div(n, 512))
// assay: fill flags value=0
// assay: launch chain grid=(ceil_div(n, 512)) block=(512) args=(x, y, flags, carry, n)

__global__ void chain(const float* x, float* y, int* flags, float* carry, int n)
{
    __shared__ int tile;
    __shared__ float s[512], before;
    const int t = threadIdx.x;
    if (t == 0) tile = atomicAdd(&flags[gridDim.x], 1);
    __syncthreads();
    const int mine = tile, i = mine * 512 + t;
    s[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int d = 1; d < 512; d <<= 1) {
        const float u = t >= d ? s[t - d] : 0.0f;
        __syncthreads();
        s[t] += u;
        __syncthreads();
    }
    if (t == 0) {
        float left = 0.0f;
        if (mine) {
            int seen = 0;
            while (!seen) asm volatile("ld.acquire.cta.global.s32 %0, [%1];" : "=r"(seen) : "l"(flags + mine - 1) : "memory");
            left = carry[mine - 1];
        }
        before = left;
        carry[mine] = left + s[511];
        asm volatile("st.release.cta.global.s32 [%0], 1;" ::"l"(flags + mine) : "memory");
    }
    __syncthreads();
    if (i < n) y[i] = before + s[t];
}
