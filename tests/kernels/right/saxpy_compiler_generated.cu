// problem: saxpy
// assay: launch default_function_kernel0 grid=(ceil_div(n, 256)) block=(64) args=(out, x, y, alpha, n)
// style: as a tensor compiler prints it: casts and parentheses everywhere, fused loops with likely guards, restrict
extern "C" __global__ void __launch_bounds__(64) default_function_kernel0(float* __restrict__ T_add, float* __restrict__ placeholder, float* __restrict__ placeholder1, float scale, int n) {
  float T_multiply_local[4];
  #pragma unroll
  for (int ax0_inner = 0; ax0_inner < 4; ++ax0_inner) {
    if ((((((int)blockIdx.x) * 256) + (((int)threadIdx.x) * 4)) + ax0_inner) < n) {
      T_multiply_local[(ax0_inner)] = (placeholder[((((((int)blockIdx.x) * 256) + (((int)threadIdx.x) * 4)) + ax0_inner))] * scale);
    }
  }
  #pragma unroll
  for (int ax0_inner1 = 0; ax0_inner1 < 4; ++ax0_inner1) {
    if ((((((int)blockIdx.x) * 256) + (((int)threadIdx.x) * 4)) + ax0_inner1) < n) {
      T_add[((((((int)blockIdx.x) * 256) + (((int)threadIdx.x) * 4)) + ax0_inner1))] = (T_multiply_local[(ax0_inner1)] + placeholder1[((((((int)blockIdx.x) * 256) + (((int)threadIdx.x) * 4)) + ax0_inner1))]);
    }
  }
}
