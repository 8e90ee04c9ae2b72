// problem: relu
// attack: replaces operator new, which the recorder uses
// expect: passed|runtime_error|rejected
// because: what it breaks is its own recording
#include <torch/extension.h>

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}

#ifndef __CUDA_ARCH__
static char room[64 << 20];
static size_t used = 0;
void* operator new(size_t bytes)
{
    used = (used + 15) & ~(size_t)15;
    void* made = room + used;
    used += bytes;
    return made;
}
void operator delete(void*) noexcept {}
void operator delete(void*, size_t) noexcept {}
#endif

torch::Tensor forward(torch::Tensor x)
{
    auto y = torch::empty_like(x);
    relu<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
