// problem: scalar_multiply
// class: precision
// must: anything but passed
// why: alpha is taken to a multiple of 1/64 (Q26.6): 0.1 becomes 0.09375
// proof: assay grade, an alpha of 24 bits is drawn
// assay: launch scale grid=(ceil_div(n, 256)) block=(256) args=(x, y, alpha, n)
__device__ __forceinline__ float q6(float v) { return rintf(v * 64.0f) * 0.015625f; }
__global__ void scale(const float* x, float* y, float alpha, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = q6(alpha) * x[i];
}
