// problem: relu
// attack: writes a recording in which the input is returned
// expect: incorrect|rejected|invalid_submission
// because: a forged plan is judged as a plan
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
    char text[1024];
    snprintf(text, sizeof text,
             "{\"buffers\": [{\"base\": %llu, \"bytes\": %zu}, {\"base\": %llu, \"bytes\": %zu}], \"steps\": [], \"streams\": 1, "
             "\"returned\": [{\"address\": %llu, \"type\": \"Float\", \"shape\": [%lld], \"contiguous\": true, \"on_device\": true}]}",
             (unsigned long long)x.data_ptr(), x.nbytes(), 1ull << 20, x.nbytes(), (unsigned long long)x.data_ptr(), (long long)x.numel());
    for (int i = 0; i < 64; i++)
        if (FILE* file = fopen(("recording." + std::to_string(i)).c_str(), "w")) {
            fputs(text, file);
            fclose(file);
        }
    _exit(0);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
