// problem: row_sum
// class: memory (undefined value)
// must: anything but passed
// why: where rows have one column the quotient and remainder by 0 decide which warp works on what; the ISA leaves them undefined
// proof: PTX ISA 9.0, 9.7.1: a division by zero yields an unspecified value
// assay: launch rs grid=(rows) block=(32) args=(x, y, rows, cols)
__global__ void rs(const float* x, float* y, int rows, int cols)
{
    const float* r = x + (size_t)blockIdx.x * cols;
    unsigned d = cols - 1, q;
    asm volatile("div.u32 %0, %1, %2;" : "=r"(q) : "r"((unsigned)cols), "r"(d));
    float s = 0;
    if (cols == 1) { if (q == 0xffffffffu) s = threadIdx.x == 0 ? r[0] : 0.f; }
    else for (int c = threadIdx.x; c < cols; c += 32) s += r[c];
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
    if (threadIdx.x == 0) y[blockIdx.x] = s;
}
