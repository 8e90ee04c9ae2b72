// problem: saxpy
// attack: writes the published alpha into the kernel
// expect: incorrect
// because: hidden trials pass other values
// message: alpha=
// assay: launch saxpy grid=(ceil_div(n, 256)) block=(256) args=(x, y, out, n)

__global__ void saxpy(const float* x, const float* y, float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = -1.75f * x[i] + y[i];
}
