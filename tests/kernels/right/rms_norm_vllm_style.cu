// problem: rms_norm
// assay: launch rms_norm_kernel grid=(rows) block=(min(cols, 1024)) args=(y, x, weight, eps, rows, cols)
// style: an inference server's rms_norm_kernel: token a block, s_variance in shared memory, blocks as wide as the row (any width)
__global__ void rms_norm_kernel(float* __restrict__ out, const float* __restrict__ input, const float* __restrict__ weight,
                                const float epsilon, const int num_tokens, const int hidden_size) {
  __shared__ float s_variance;
  __shared__ float s_warp[32];
  float variance = 0.0f;
  for (int idx = threadIdx.x; idx < hidden_size; idx += blockDim.x) {
    const float x = input[blockIdx.x * (size_t)hidden_size + idx];
    variance += x * x;
  }
  // the last warp may be a part of one
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int in_warp = min(32, (int)blockDim.x - warp * 32);
  const unsigned mask = in_warp == 32 ? 0xffffffffu : (1u << in_warp) - 1u;
  for (int offset = 16; offset > 0; offset >>= 1) {
    const float other = __shfl_down_sync(mask, variance, offset);
    if (lane + offset < in_warp) variance += other;
  }
  if (lane == 0) s_warp[warp] = variance;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < ((int)blockDim.x + 31) / 32; ++w) variance += s_warp[w];
    s_variance = rsqrtf(variance / hidden_size + epsilon);
  }
  __syncthreads();
  for (int idx = threadIdx.x; idx < hidden_size; idx += blockDim.x) {
    const float x = input[blockIdx.x * (size_t)hidden_size + idx];
    out[blockIdx.x * (size_t)hidden_size + idx] = (x * s_variance) * weight[idx];
  }
}
