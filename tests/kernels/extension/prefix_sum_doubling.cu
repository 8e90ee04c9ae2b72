// problem: prefix_sum
// style: a loop of launches over two buffers, clone, std::swap of tensors
#include <torch/extension.h>
#include <utility>

__global__ void step(const float* from, float* to, int n, int distance)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = i >= distance ? from[i] + from[i - distance] : from[i];
}

torch::Tensor forward(torch::Tensor x)
{
    torch::Tensor from = x.clone(), to = torch::empty_like(x);
    const int n = x.size(-1);
    for (int distance = 1; distance < n; distance *= 2) {
        step<<<(n + 511) / 512, 512>>>(from.data_ptr<float>(), to.data_ptr<float>(), n, distance);
        std::swap(from, to);
    }
    return from;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "inclusive scan"); }
