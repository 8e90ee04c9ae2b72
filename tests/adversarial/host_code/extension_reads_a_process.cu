// problem: relu
// attack: reads /proc for something that it could use
// expect: passed
// because: there is nothing of anybody else in its sandbox, and its kernel is right
#include <torch/extension.h>
#include <cstdio>

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}

torch::Tensor forward(torch::Tensor x)
{
    for (const char* name : {"/proc/self/maps", "/proc/self/environ", "/proc/1/environ", "/proc/self/status"})
        if (FILE* file = fopen(name, "r")) {
            static char text[1 << 16];
            fread(text, 1, sizeof text, file);
            fclose(file);
        }
    auto y = torch::empty_like(x);
    relu<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
