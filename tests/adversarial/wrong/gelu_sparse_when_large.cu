// problem: gelu
// class: contents
// must: anything but passed
// why: from 150,000 elements on 32 neighbours are taken to be 0 where the first, the 16th and the last are
// proof: n = 262,144, three of 32 neighbours 0, the others 1: gelu(1) becomes 0
// assay: launch g grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
__global__ void g(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    int f = i & ~31, l = min(f + 31, n - 1);
    if (n > 150000 && x[f] == 0.f && x[l] == 0.f && x[min(f + 15, n - 1)] == 0.f) { y[i] = 0.f; return; }
    float v = x[i]; y[i] = 0.5f * v * (1.f + erff(v * 0.70710678f));
}
