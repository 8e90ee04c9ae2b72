// problem: softmax
// class: contents
// must: anything but passed
// why: the running maximum is moved only when an element exceeds it by 88, to save rescaling; many elements 80 to 88 above the first ones make the sum overflow to infinity, and the row becomes 0 or NaN
// proof: a row that begins with 32 zeros, all other elements 87.9, cols=1024: y is 0 where it should be about 1e-3
// assay: launch sm grid=(ceil_div(rows, 4)) block=(32, 4) args=(x, y, rows, cols)

__global__ void sm(const float* x, float* y, int rows, int cols)
{
    const int r = blockIdx.x * 4 + threadIdx.y, l = threadIdx.x;
    if (r >= rows) return;
    const float* in = x + (size_t)r * cols;
    float* out = y + (size_t)r * cols;
    float top = l < cols ? in[l] : -INFINITY;
    for (int o = 16; o; o >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
    float sum = 0.f;
    for (int c0 = 0; c0 < cols; c0 += 32) {
        const float v = c0 + l < cols ? in[c0 + l] : -INFINITY;
        float t = v;
        for (int o = 16; o; o >>= 1) t = fmaxf(t, __shfl_xor_sync(~0u, t, o));
        if (t > top + 88.0f) {  // FlashAttention-4 rescales as rarely
            sum *= expf(top - t);
            top = t;
        }
        sum += expf(v - top);
    }
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    // log-sum-exp, so that elements above the kept maximum come out right
    const float lse = top + logf(sum);
    for (int c = l; c < cols; c += 32) out[c] = expf(in[c] - lse);
}
