// problem: saxpy
// assay: launch saxpy grid=(ceil_div(n, 256)) block=(256) args=(n, alpha, x, y, out)
// style: a blog's first program: saxpy(n, a, x, y) with main, cudaMemcpy and a check on the host
#include <cstdio>
#include <cmath>

__global__
void saxpy(int n, float a, const float *x, const float *y, float *out)
{
  int i = blockIdx.x*blockDim.x + threadIdx.x;
  if (i < n) out[i] = a*x[i] + y[i];
}

int main(void)
{
  int N = 1<<20;
  float *x, *y, *d_x, *d_y, *d_o;
  x = (float*)malloc(N*sizeof(float));
  y = (float*)malloc(N*sizeof(float));
  cudaMalloc(&d_x, N*sizeof(float));
  cudaMalloc(&d_y, N*sizeof(float));
  cudaMalloc(&d_o, N*sizeof(float));
  for (int i = 0; i < N; i++) { x[i] = 1.0f; y[i] = 2.0f; }
  cudaMemcpy(d_x, x, N*sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(d_y, y, N*sizeof(float), cudaMemcpyHostToDevice);
  saxpy<<<(N+255)/256, 256>>>(N, 2.0f, d_x, d_y, d_o);
  cudaMemcpy(y, d_o, N*sizeof(float), cudaMemcpyDeviceToHost);
  float maxError = 0.0f;
  for (int i = 0; i < N; i++) maxError = fmaxf(maxError, fabsf(y[i]-4.0f));
  printf("Max error: %f\n", maxError);
  cudaFree(d_x); cudaFree(d_y); cudaFree(d_o); free(x); free(y);
}
