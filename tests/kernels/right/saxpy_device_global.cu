// problem: saxpy
// assay: launch set_alpha grid=(1) block=(1) args=(alpha)
// assay: launch saxpy grid=(ceil_div(n, 256)) block=(256) args=(x, y, out, n)
// style: a coefficient in a __device__ variable, set by a first launch, used by the second
__device__ float coefficient;

__global__ void set_alpha(float alpha) { coefficient = alpha; }

__global__ void saxpy(const float* x, const float* y, float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = __fadd_rn(__fmul_rn(coefficient, x[i]), y[i]);
}
