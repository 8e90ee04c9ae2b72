// problem: histogram
// class: schedule
// must: anything but passed
// why: blocks add their bins by ld.relaxed.gpu and st.relaxed.gpu: no data race by the memory model, and still counts are lost between the two
// proof: PTX memory model: only atom and red are read-modify-write; two blocks that load before either stores
// assay: fill counts value=0
// assay: launch hist grid=(ceil_div(n, 8192)) block=(256) args=(values, counts, n)

__device__ __forceinline__ int load_relaxed(const int* p) { int v; asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
__device__ __forceinline__ void store_relaxed(int* p, int v) { asm volatile("st.relaxed.gpu.global.s32 [%0], %1;" :: "l"(p), "r"(v) : "memory"); }

__global__ void hist(const int* values, int* counts, int n)
{
    __shared__ int bins[256];
    bins[threadIdx.x] = 0;
    __syncthreads();
    const int end = min(n, (int)(blockIdx.x + 1) * 8192);
    for (int i = blockIdx.x * 8192 + threadIdx.x; i < end; i += 256) atomicAdd(bins + values[i], 1);
    __syncthreads();
    const int b = (threadIdx.x + blockIdx.x * 37) & 255;  // blocks begin at different bins
    store_relaxed(counts + b, load_relaxed(counts + b) + bins[b]);
}
