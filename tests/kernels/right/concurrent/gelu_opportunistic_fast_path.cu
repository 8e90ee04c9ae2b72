// problem: gelu
// assay: launch gelu_opportunistic grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
// style: __activemask() as a hint only: whoever runs together votes whether all can take the short way; both ways are right for all
__global__ void gelu_opportunistic(const float* x, float* y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        const float v = x[i];
        const unsigned here = __activemask();
        // beyond 6 the distribution function is 1 in float32
        y[i] = __all_sync(here, v > 6.0f) ? v : 0.5f * v * erfcf(-0.70710678f * v);
    }
}
