// problem: scalar_multiply
// style: a struct with padding in pinned memory that is copied, and a mapped buffer, each written in a part
#include <cuda_runtime.h>

struct Settings {
    char sign;
    float factor;
    short unused;
    long long offset;
};

__global__ void scale(const float* x, float* y, const Settings* settings, const float* one, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float factor = settings->sign == '-' ? -settings->factor : settings->factor;
    if (i < n) y[i] = factor * x[i + settings->offset] * one[7];
}

extern "C" void solve(const float* x, float* y, float alpha, int n)
{
    Settings *host, *settings;
    float *mapped, *there;
    cudaMallocHost(&host, 8 << 20);
    cudaHostAlloc(&mapped, 64, cudaHostAllocMapped);
    cudaMalloc(&settings, 2 * sizeof(Settings));
    host[0].sign = alpha < 0 ? '-' : '+';
    host[0].factor = alpha < 0 ? -alpha : alpha;
    host[0].offset = 0;
    mapped[7] = 1.0f;
    cudaHostGetDevicePointer(&there, mapped, 0);
    cudaPointerAttributes found;
    cudaPointerGetAttributes(&found, mapped);
    if (found.type != cudaMemoryTypeHost || found.devicePointer != there) return;
    cudaMemcpyAsync(settings, host, 2 * sizeof(Settings), cudaMemcpyHostToDevice, 0);
    scale<<<(n + 127) / 128, 128>>>(x, y, settings, there, n);
    cudaFreeHost(host);
    cudaFreeHost(mapped);
    cudaFree(settings);
}
