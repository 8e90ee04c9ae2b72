// problem: softmax
// class: sizes
// must: anything but passed
// why: rows of 4,097 to 4,111 columns are rounded down to 4,096 (a vector's rest below one float4 a lane)
// proof: see why
// assay: launch f grid=(rows) block=(128) args=(x, y, cols)
__device__ float red(float v, bool mx) { __shared__ float p[4]; for (int o = 16; o; o >>= 1) { float u = __shfl_xor_sync(~0u, v, o); v = mx ? fmaxf(v, u) : v + u; } __syncthreads(); if (threadIdx.x % 32 == 0) p[threadIdx.x / 32] = v; __syncthreads(); return mx ? fmaxf(fmaxf(p[0], p[1]), fmaxf(p[2], p[3])) : p[0] + p[1] + p[2] + p[3]; }
__global__ void f(const float* x, float* y, int cols)
{ const float* r = x + (size_t)blockIdx.x * cols; float* o = y + (size_t)blockIdx.x * cols; int n = cols > 4096 && cols < 4112 ? 4096 : cols; float m = -INFINITY, s = 0;
  for (int c = threadIdx.x; c < n; c += 128) m = fmaxf(m, r[c]); m = red(m, true);
  for (int c = threadIdx.x; c < n; c += 128) s += expf(r[c] - m); s = red(s, false);
  for (int c = threadIdx.x; c < cols; c += 128) o[c] = expf(r[c] - m) / s; }
