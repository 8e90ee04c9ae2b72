// problem: relu
// style: two kernels: four at a time, and the rest at an offset
#include <cuda_runtime.h>

__global__ void relu4(const float4* x, float4* y, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float4 v = x[i];
    y[i] = make_float4(fmaxf(v.x, 0.0f), fmaxf(v.y, 0.0f), fmaxf(v.z, 0.0f), fmaxf(v.w, 0.0f));
}

__global__ void relu1(const float* x, float* y, int count)
{
    int i = threadIdx.x;
    if (i < count) y[i] = fmaxf(x[i], 0.0f);
}

extern "C" void solve(const float* input, float* output, int N)
{
    int quads = N / 4, rest = N % 4;
    if (quads) {
        relu4<<<(quads + 255) / 256, 256>>>(reinterpret_cast<const float4*>(input), reinterpret_cast<float4*>(output), quads);
    }
    if (rest) relu1<<<1, 32>>>(input + 4 * quads, output + 4 * quads, rest);
}
