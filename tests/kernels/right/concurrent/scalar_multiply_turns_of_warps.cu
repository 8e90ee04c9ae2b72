// problem: scalar_multiply
// assay: launch turns grid=(ceil_div(n, 1024)) block=(256) args=(x, y, alpha, n)
// style: warps pass one shared buffer round in turns: a turn number with st.release.cta and ld.acquire.cta
__device__ __forceinline__ int look(const int* p)
{
    int v;
    asm volatile("ld.acquire.cta.shared.s32 %0, [%1];" : "=r"(v) : "r"((unsigned)__cvta_generic_to_shared(p)) : "memory");
    return v;
}
__device__ __forceinline__ void pass_on(int* p, int v)
{
    asm volatile("st.release.cta.shared.s32 [%0], %1;" ::"r"((unsigned)__cvta_generic_to_shared(p)), "r"(v) : "memory");
}

__global__ void turns(const float* x, float* y, float alpha, int n)
{
    __shared__ float buffer[32];
    __shared__ int turn;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) turn = 0;
    __syncthreads();
    for (int round = 0; round < 4; ++round) {
        const int i = blockIdx.x * 1024 + round * 256 + warp * 32;
        while (look(&turn) != round * 8 + warp) __nanosleep(20);
        buffer[lane] = i + lane < n ? alpha * x[i + lane] : 0.0f;
        __syncwarp();
        if (i + (lane ^ 31) < n) y[i + (lane ^ 31)] = buffer[lane ^ 31];
        __syncwarp();  // all lanes have read before lane 0 passes the buffer on
        if (lane == 0) pass_on(&turn, round * 8 + warp + 1);
    }
}
