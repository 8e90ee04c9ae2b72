// problem: softmax
// class: contents
// must: anything but passed
// why: a row of more than 1,100 columns whose first, middle and last elements are equal is taken to be constant
// proof: cols = 2,048, x = 0 at both ends and in the middle, 5 elsewhere: y is 1 / 2,048 everywhere
// assay: launch sm grid=(rows) block=(256) args=(x, y, cols)
__global__ void sm(const float* x, float* y, int cols)
{
    __shared__ float p[256]; const float* r = x + (size_t)blockIdx.x * cols; float* o = y + (size_t)blockIdx.x * cols; int t = threadIdx.x;
    if (cols > 1100 && r[0] == r[cols / 2] && r[0] == r[cols - 1]) { for (int c = t; c < cols; c += 256) o[c] = 1.f / cols; return; }
    float m = -INFINITY; for (int c = t; c < cols; c += 256) m = fmaxf(m, r[c]);
    p[t] = m; __syncthreads(); for (int w = 128; w; w >>= 1) { if (t < w) p[t] = fmaxf(p[t], p[t + w]); __syncthreads(); } m = p[0]; __syncthreads();
    float s = 0; for (int c = t; c < cols; c += 256) s += expf(r[c] - m);
    p[t] = s; __syncthreads(); for (int w = 128; w; w >>= 1) { if (t < w) p[t] += p[t + w]; __syncthreads(); } s = p[0];
    for (int c = t; c < cols; c += 256) o[c] = expf(r[c] - m) / s;
}
