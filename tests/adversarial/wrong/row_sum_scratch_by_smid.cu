// problem: row_sum
// class: registers
// must: anything but passed
// why: partial sums lie in scratch memory by %smid: two blocks on one multiprocessor share them
// proof: see why
// assay: temp t float32 (65536)
// assay: launch f grid=(rows) block=(128) args=(x, y, t, cols)
__global__ void f(const float* x, float* y, float* t, int cols)
{ unsigned sm; asm volatile("mov.u32 %0, %%smid;" : "=r"(sm)); float* p = t + (sm & 255) * 128; const float* r = x + (size_t)blockIdx.x * cols; float s = 0;
  for (int c = threadIdx.x; c < cols; c += 128) s += r[c]; p[threadIdx.x] = s; __syncthreads();
  if (threadIdx.x == 0) { s = 0; for (int i = 0; i < 128; i++) s += p[i]; y[blockIdx.x] = s; } }
