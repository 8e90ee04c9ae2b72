// problem: matvec
// assay: temp part float32 (m * 3)
// assay: temp seen uint32 (ceil_div(m, 8))
// assay: fill seen value=0
// assay: launch mv grid=(ceil_div(m, 8), 3) block=(32, 8) args=(a, x, y, part, seen, m, k)
// style: three slices of the depth; fence.acq_rel.gpu; atom.relaxed; fence.acq_rel.gpu in one thread, barriers around it
__global__ void mv(const float* a, const float* x, float* y, float* part, unsigned* seen, int m, int k)
{
    __shared__ unsigned order;
    const int row = blockIdx.x * 8 + threadIdx.y, lane = threadIdx.x;
    const int slice = (k + 2) / 3, begin = min(k, (int)blockIdx.y * slice), end = min(k, begin + slice);
    float s = 0.0f;
    if (row < m)
        for (int j = begin + lane; j < end; j += 32) s = fmaf(a[(size_t)row * k + j], x[j], s);
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
    if (row < m && lane == 0) part[blockIdx.y * m + row] = s;
    __syncthreads();
    if (lane == 0 && threadIdx.y == 0) {
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
        asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(order) : "l"(seen + blockIdx.x) : "memory");
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
    }
    __syncthreads();
    if (order == 2 && row < m && lane == 0) y[row] = part[row] + part[m + row] + part[2 * m + row];
}
