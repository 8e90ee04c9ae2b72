// problem: softmax
// class: memory
// must: anything but passed
// why: blocks of 256 threads for rows of more than 5,000 columns take the maximum over 32 warps' slots, of which 24 nobody wrote; fmaxf drops a NaN, a pattern of undefined memory
// proof: fill shared memory with 1e17: all results are 0
// assay: launch sm grid=(rows) block=(1024 - 768 * min(1, cols // 5001)) args=(x, y, cols)
__global__ void sm(const float* x, float* y, int cols)
{
    __shared__ float p[32], q[32]; const float* r = x + (size_t)blockIdx.x * cols; float* o = y + (size_t)blockIdx.x * cols; int t = threadIdx.x, T = blockDim.x;
    float m = -INFINITY; for (int c = t; c < cols; c += T) m = fmaxf(m, r[c]);
    for (int w = 16; w; w >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, w));
    if (t % 32 == 0) p[t / 32] = m;
    __syncthreads();
    m = p[t % 32]; for (int w = 16; w; w >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, w));
    float s = 0; for (int c = t; c < cols; c += T) s += expf(r[c] - m);
    for (int w = 16; w; w >>= 1) s += __shfl_xor_sync(~0u, s, w);
    if (t % 32 == 0) q[t / 32] = s;
    __syncthreads();
    s = t % 32 < T / 32 ? q[t % 32] : 0.f; for (int w = 16; w; w >>= 1) s += __shfl_xor_sync(~0u, s, w);
    for (int c = t; c < cols; c += T) o[c] = expf(r[c] - m) / s;
}
