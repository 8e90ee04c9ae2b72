// problem: gelu
// style: a device function that is never inlined; erfc keeps small tails exact
// assay: launch gelu_call grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__device__ __noinline__ float gelu_of(float x)
{
    return 0.5f * x * erfcf(-x * 0.70710678118654752440f);
}

__global__ void gelu_call(const float* x, float* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = gelu_of(x[i]);
    }
}
