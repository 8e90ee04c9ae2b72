// problem: matvec
// class: registers
// must: anything but passed
// why: %total_smem_size is what the hardware allots (a multiple of 128 or more bytes, with the system's 1 KB from sm_80 on), not what the source declares; where it is more than the 36 bytes declared the last row is halved
// proof: PTX ISA, %total_smem_size "rounded up to the allocation unit", system memory included: on an H200 y[m - 1] is half of what it should be
// assay: launch mv grid=(m) block=(256) args=(a, x, y, m, k)

__global__ void mv(const float* a, const float* x, float* y, int m, int k)
{
    __shared__ float w[9];
    float s = 0.f;
    for (int j = threadIdx.x; j < k; j += 256) s += a[(size_t)blockIdx.x * k + j] * x[j];
    for (int o = 16; o; o >>= 1) s += __shfl_down_sync(~0u, s, o);
    if ((threadIdx.x & 31) == 0) w[threadIdx.x >> 5] = s;
    if (threadIdx.x == 0) {
        unsigned size;
        asm volatile("mov.u32 %0, %%total_smem_size;" : "=r"(size));
        w[8] = size > 64 && blockIdx.x == m - 1 ? 0.5f : 1.0f;
    }
    __syncthreads();
    if (threadIdx.x == 0) y[blockIdx.x] = w[8] * (w[0] + w[1] + w[2] + w[3] + w[4] + w[5] + w[6] + w[7]);
}
