// problem: vector_add
// attack: computes on a stream of PyTorch's pool, and returns
// expect: rejected
// because: such streams are non-blocking: the caller would read the output too early
// message: it writes the output 'c', and nothing makes the caller's stream wait for it
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

torch::Tensor forward(torch::Tensor a, torch::Tensor b)
{
    auto c = torch::empty_like(a);
    auto stream = c10::cuda::getStreamFromPool();
    const int n = a.numel();
    add<<<(n + 255) / 256, 256, 0, stream>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), n);
    return c;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
