// problem: prefix_sum
// class: sizes
// must: anything but passed
// why: the sums of 2,048 elements are scanned in a shared array of 4,352 floats; more chunks (n > 8,912,896) are left out
// proof: assay grade --size n=17825792 refuses it
// assay: temp part float32 (ceil_div(n, 2048))
// assay: launch sums grid=(ceil_div(n, 2048)) block=(256) args=(x, part, n)
// assay: launch scan1 grid=(1) block=(32) args=(part, ceil_div(n, 2048))
// assay: launch scan2 grid=(ceil_div(n, 2048)) block=(256) args=(x, part, y, n)
__global__ void sums(const float* x, float* part, int n)
{
    __shared__ float s[256]; float a = 0;
    for (int k = 0; k < 8; k++) { int i = blockIdx.x * 2048 + threadIdx.x * 8 + k; if (i < n) a += x[i]; }
    s[threadIdx.x] = a; __syncthreads();
    for (int w = 128; w; w >>= 1) { if (threadIdx.x < w) s[threadIdx.x] += s[threadIdx.x + w]; __syncthreads(); }
    if (threadIdx.x == 0) part[blockIdx.x] = s[0];
}
__global__ void scan1(float* part, int m)
{
    __shared__ float s[4352];
    for (int i = threadIdx.x; i < min(m, 4352); i += 32) s[i] = part[i];
    __syncthreads();
    if (threadIdx.x == 0) { float a = 0; for (int i = 0; i < min(m, 4352); i++) { float v = s[i]; s[i] = a; a += v; } }
    __syncthreads();
    for (int i = threadIdx.x; i < min(m, 4352); i += 32) part[i] = s[i];
}
__global__ void scan2(const float* x, const float* part, float* y, int n)
{
    __shared__ float s[256]; float v[8]; float a = 0; int t = threadIdx.x;
    for (int k = 0; k < 8; k++) { int i = blockIdx.x * 2048 + t * 8 + k; a += i < n ? x[i] : 0.f; v[k] = a; }
    s[t] = a; __syncthreads();
    for (int w = 1; w < 256; w *= 2) { float u = t >= w ? s[t - w] : 0.f; __syncthreads(); s[t] += u; __syncthreads(); }
    float base = part[blockIdx.x] + s[t] - a;
    if (t > 0) base = part[blockIdx.x] + s[t - 1]; else base = part[blockIdx.x];
    for (int k = 0; k < 8; k++) { int i = blockIdx.x * 2048 + t * 8 + k; if (i < n) y[i] = base + v[k]; }
}
