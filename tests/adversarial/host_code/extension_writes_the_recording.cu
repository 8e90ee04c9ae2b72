// problem: relu
// attack: writes the recording itself, and ends
// expect: rejected
// because: what it writes is no recording
// message: has written it itself
#include <torch/extension.h>
#include <cstdio>
#include <unistd.h>

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}

torch::Tensor forward(torch::Tensor x)
{
    for (int i = 0; i < 64; i++)
        if (FILE* file = fopen(("recording." + std::to_string(i)).c_str(), "w")) {
            fputs("{\"passed\": true}", file);
            fclose(file);
        }
    _exit(0);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
