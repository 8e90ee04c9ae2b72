// problem: row_sum
// class: registers
// must: anything but passed
// why: 96 and more registers for each of 1,024 threads: no GPU can launch that (65,536 for a block), and the launch fails
// proof: cudaErrorLaunchOutOfResources on every GPU
// assay: launch rs grid=(rows) block=(1024) args=(x, y, cols)
__global__ void rs(const float* x, float* y, int cols)
{
    __shared__ float p[1024]; const float* r = x + (size_t)blockIdx.x * cols; float a[120];
#pragma unroll
    for (int k = 0; k < 120; k++) a[k] = 0.f;
    for (int c = threadIdx.x; c < cols; c += 1024 * 120)
#pragma unroll
        for (int k = 0; k < 120; k++) if (c + k * 1024 < cols) a[k] += r[c + k * 1024] * (1.f + 0.f * a[(k + 7) % 120]);
    float s = 0;
#pragma unroll
    for (int k = 0; k < 120; k++) s += a[k];
    p[threadIdx.x] = s; __syncthreads();
    for (int w = 512; w; w >>= 1) { if (threadIdx.x < w) p[threadIdx.x] += p[threadIdx.x + w]; __syncthreads(); }
    if (threadIdx.x == 0) y[blockIdx.x] = p[0];
}
