// problem: transpose
// attack: has its result stored otherwise than its shape says
// expect: unsupported
// because: what it then writes would be called wrong
// message: memory_format
#include <torch/extension.h>

__global__ void copy(const float* x, float* y, int64_t n)
{
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}

torch::Tensor forward(torch::Tensor x)
{
    auto y = torch::empty({1, x.size(1), x.size(0), 1}, x.options().memory_format(at::MemoryFormat::ChannelsLast));
    copy<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y.view({x.size(1), x.size(0)});
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)
{
    m.def("forward", &forward);
}
