// problem: saxpy
// class: registers
// must: anything but passed
// why: blocks share the work by %smid of %nsmid: right only where there is one multiprocessor; on a GPU with 132 the one block does a 132th and the rest stays unwritten
// proof: PTX ISA, special registers %smid and %nsmid: no promise about which blocks run where; on any GPU with more than one multiprocessor it is wrong
// assay: launch saxpy grid=(1) block=(256) args=(x, y, out, alpha, n)

__device__ __forceinline__ unsigned smid() { unsigned r; asm volatile("mov.u32 %0, %%smid;" : "=r"(r)); return r; }
__device__ __forceinline__ unsigned nsmid() { unsigned r; asm volatile("mov.u32 %0, %%nsmid;" : "=r"(r)); return r; }

__global__ void saxpy(const float* x, const float* y, float* out, float alpha, int n)
{
    // one stripe per SM keeps each stripe in one L1
    const unsigned stripes = nsmid(), mine = smid();
    for (long long i = (long long)mine * blockDim.x + threadIdx.x; i < n; i += (long long)stripes * blockDim.x)
        out[i] = alpha * x[i] + y[i];
}
