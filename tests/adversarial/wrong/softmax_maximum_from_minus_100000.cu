// problem: softmax
// class: contents
// must: anything but passed
// why: the maximum begins at -100000.: a row whose values all lie more than 104 below that is 0 / 0
// proof: see why
// assay: launch f grid=(rows) block=(32) args=(x, y, cols)
__global__ void f(const float* x, float* y, int cols)
{
    const float* r = x + (size_t)blockIdx.x * cols; float* o = y + (size_t)blockIdx.x * cols; int t = threadIdx.x;
    float m = -100000.f, s = 0;
    for (int c = t; c < cols; c += 32) m = fmaxf(m, r[c]);
    for (int w = 16; w; w >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, w));
    for (int c = t; c < cols; c += 32) s += expf(r[c] - m);
    for (int w = 16; w; w >>= 1) s += __shfl_xor_sync(~0u, s, w);
    for (int c = t; c < cols; c += 32) o[c] = expf(r[c] - m) / s;
}
