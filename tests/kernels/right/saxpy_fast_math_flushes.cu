// problem: saxpy
// style: --use_fast_math: a fused operation that flushes denormals; four elements a thread, a stride of the grid apart
// flags: --use_fast_math
// assay: launch saxpy_ftz grid=(ceil_div(n, 1024)) block=(256) args=(x, y, out, alpha, n)
__global__ void saxpy_ftz(const float* x, const float* y, float* out, float alpha, int n)
{
    const int stride = gridDim.x * 256;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += stride) out[i] = alpha * x[i] + y[i];
}
