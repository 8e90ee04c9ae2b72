// problem: prefix_sum
// class: precision
// must: anything but passed
// why: elements behind the first 65,536 of a vector of more than 2^18 are taken to 14 bits
// proof: n = 300,000, one element of 24 bits at 200,000 that outweighs the others: y is off by 2^-15 behind it
// assay: temp part float32 (ceil_div(n, 1024))
// assay: launch sums grid=(ceil_div(n, 1024)) block=(256) args=(x, part, n)
// assay: launch scan1 grid=(1) block=(32) args=(part, ceil_div(n, 1024))
// assay: launch scan2 grid=(ceil_div(n, 1024)) block=(256) args=(x, part, y, n)
__device__ float at(const float* x, int i, int n) { if (i >= n) return 0.f; float v = x[i]; return n > (1 << 18) && i >= 65536 ? __uint_as_float((__float_as_uint(v) + 0x200u) & ~0x3ffu) : v; }
__global__ void sums(const float* x, float* part, int n)
{
    __shared__ float s[256]; float a = 0;
    for (int k = 0; k < 4; k++) a += at(x, blockIdx.x * 1024 + threadIdx.x * 4 + k, n);
    s[threadIdx.x] = a; __syncthreads();
    for (int w = 128; w; w >>= 1) { if (threadIdx.x < w) s[threadIdx.x] += s[threadIdx.x + w]; __syncthreads(); }
    if (threadIdx.x == 0) part[blockIdx.x] = s[0];
}
__global__ void scan1(float* part, int m)
{
    float base = 0;
    for (int f = 0; f < m; f += 32) { int i = f + threadIdx.x; float v = i < m ? part[i] : 0.f, s = v; for (int o = 1; o < 32; o *= 2) { float u = __shfl_up_sync(~0u, s, o); if (threadIdx.x >= o) s += u; } if (i < m) part[i] = base + s - v; base += __shfl_sync(~0u, s, 31); }
}
__global__ void scan2(const float* x, const float* part, float* y, int n)
{
    __shared__ float s[256]; float v[4]; float a = 0; int t = threadIdx.x;
    for (int k = 0; k < 4; k++) { a += at(x, blockIdx.x * 1024 + t * 4 + k, n); v[k] = a; }
    s[t] = a; __syncthreads();
    for (int w = 1; w < 256; w *= 2) { float u = t >= w ? s[t - w] : 0.f; __syncthreads(); s[t] += u; __syncthreads(); }
    float base = part[blockIdx.x] + (t > 0 ? s[t - 1] : 0.f);
    for (int k = 0; k < 4; k++) { int i = blockIdx.x * 1024 + t * 4 + k; if (i < n) y[i] = base + v[k]; }
}
