// problem: matvec
// assay: launch gemv2 grid=(ceil_div(m, 32)) block=(8, 32) args=(a, x, y, m, k)
// style: ported from OpenCL by macros (get_global_id, __local, barrier); eight work-items a row, a tree in local memory
#define __local __shared__
#define get_local_id(d) ((d) == 0 ? threadIdx.x : threadIdx.y)
#define get_local_size(d) ((d) == 0 ? blockDim.x : blockDim.y)
#define get_global_id(d) ((d) == 0 ? blockIdx.y * blockDim.x + threadIdx.x : blockIdx.x * blockDim.y + threadIdx.y)
#define barrier(flags) __syncthreads()
#define CLK_LOCAL_MEM_FENCE 0
#define mad(a, b, c) fmaf(a, b, c)

extern "C" __global__ void gemv2(const float* a, const float* x, float* y, int m, int n)
{
    __local float work[32][8];
    const unsigned row = get_global_id(1);
    const unsigned jj = get_local_id(0);
    float sum = 0.0f;
    if (row < (unsigned)m)
        for (unsigned j = jj; j < (unsigned)n; j += get_local_size(0)) sum = mad(a[row * (unsigned)n + j], x[j], sum);
    work[get_local_id(1)][jj] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (unsigned cols = 4; cols > 0; cols >>= 1) {
        if (jj < cols) work[get_local_id(1)][jj] += work[get_local_id(1)][jj + cols];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (jj == 0 && row < (unsigned)m) y[row] = work[get_local_id(1)][0];
}
