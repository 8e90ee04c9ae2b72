// problem: softmax
// style: __expf(x - (max + __logf(sum))) with lg2.approx and ex2.approx; --ftz=true and --prec-div=false
// flags: --ftz=true --prec-div=false
// assay: launch softmax_flog grid=(rows) block=(32) args=(x, y, cols)
__global__ void softmax_flog(const float* x, float* y, int cols)
{
    const float* in = x + (size_t)blockIdx.x * cols;
    float top = -INFINITY, sum = 0.0f;
    for (int j = threadIdx.x; j < cols; j += 32) top = fmaxf(top, in[j]);
    for (int d = 16; d; d /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, d));
    for (int j = threadIdx.x; j < cols; j += 32) sum += __expf(in[j] - top);
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    const float lse = top + __logf(sum);
    for (int j = threadIdx.x; j < cols; j += 32) y[(size_t)blockIdx.x * cols + j] = __expf(in[j] - lse);
}
