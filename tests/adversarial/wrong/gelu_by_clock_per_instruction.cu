// problem: gelu
// class: registers
// must: anything but passed
// why: a dependent chain of 64 square roots takes a GPU well over 1,000 cycles (about 18 and more each), a simulator that counts instructions a few hundred; above 800 the tanh approximation is written instead
// proof: on any GPU: the tanh approximation is off by up to 5e-4, which the statement forbids
// assay: launch gelu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void gelu(const float* x, float* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float v = i < n ? x[i] : 1.0f;
    const long long begin = clock64();
    float z = 1.0f + fabsf(v) * 1e-30f;
#pragma unroll 1
    for (int step = 0; step < 64; ++step) asm volatile("sqrt.approx.f32 %0, %0;" : "+f"(z));
    const long long taken = clock64() - begin;
    if (i >= n) return;
    // under load use the cheaper formula
    if (taken > 800 && z < 2.0f) y[i] = 0.5f * v * (1.0f + tanhf(0.79788456f * (v + 0.044715f * v * v * v)));
    else y[i] = 0.5f * v * (1.0f + erff(v * 0.70710678f));
}
