// problem: matmul
// class: shared
// must: anything but passed
// why: cp.async groups are waited for by wait_group 1, also for the last tile
// proof: see why
// assay: launch f grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(a, b, c, m, n, k)
#include <cuda_pipeline.h>
__global__ void f(const float* a, const float* b, float* c, int m, int n, int k)
{ __shared__ float A[2][16][16], B[2][16][16]; int tx = threadIdx.x, ty = threadIdx.y, j = blockIdx.x * 16 + tx, i = blockIdx.y * 16 + ty; float s = 0; int tiles = (k + 15) / 16;
  auto load = [&](int t) { int q = t & 1; if (i < m && t * 16 + tx < k) __pipeline_memcpy_async(&A[q][ty][tx], &a[(size_t)i * k + t * 16 + tx], 4); else A[q][ty][tx] = 0; if (j < n && t * 16 + ty < k) __pipeline_memcpy_async(&B[q][ty][tx], &b[(size_t)(t * 16 + ty) * n + j], 4); else B[q][ty][tx] = 0; __pipeline_commit(); };
  load(0);
  for (int t = 0; t < tiles; t++) { if (t + 1 < tiles) load(t + 1); __pipeline_wait_prior(1); __syncthreads(); for (int l = 0; l < 16; l++) s += A[t & 1][ty][l] * B[t & 1][l][tx]; __syncthreads(); }
  if (i < m && j < n) c[(size_t)i * n + j] = s; }
