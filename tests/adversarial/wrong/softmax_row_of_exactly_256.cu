// problem: softmax
// class: sizes (exact powers of two)
// must: anything but passed
// why: rows of exactly 256 columns go to the path for shorter rows, which reads one element less
// proof: rows=1, cols=256
// assay: launch sm grid=(rows) block=(256) args=(x, y, cols)
__global__ void sm(const float* x, float* y, int cols)
{
    __shared__ float p[256]; const float* r = x + (size_t)blockIdx.x * cols; float* o = y + (size_t)blockIdx.x * cols; int t = threadIdx.x;
    float m = -INFINITY, s = 0;
    if (cols <= 256) { bool in = t < cols && t < 255; float v = in ? r[t] : -INFINITY; p[t] = v; __syncthreads();
        for (int w = 128; w; w >>= 1) { if (t < w) p[t] = fmaxf(p[t], p[t + w]); __syncthreads(); } m = p[0]; __syncthreads();
        float e = in ? expf(v - m) : 0.f; p[t] = e; __syncthreads();
        for (int w = 128; w; w >>= 1) { if (t < w) p[t] += p[t + w]; __syncthreads(); }
        if (t < cols) o[t] = e / p[0]; return; }
    for (int c = t; c < cols; c += 256) m = fmaxf(m, r[c]);
    p[t] = m; __syncthreads(); for (int w = 128; w; w >>= 1) { if (t < w) p[t] = fmaxf(p[t], p[t + w]); __syncthreads(); } m = p[0]; __syncthreads();
    for (int c = t; c < cols; c += 256) s += expf(r[c] - m);
    p[t] = s; __syncthreads(); for (int w = 128; w; w >>= 1) { if (t < w) p[t] += p[t + w]; __syncthreads(); } s = p[0];
    for (int c = t; c < cols; c += 256) o[c] = expf(r[c] - m) / s;
}
