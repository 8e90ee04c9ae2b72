// problem: vector_add
// style: streams from the pool with a guard, chunk, properties of the device
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/cuda/CUDAGuard.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) c[i] = a[i] + b[i];
}

torch::Tensor forward(torch::Tensor a, torch::Tensor b)
{
    torch::Tensor c = torch::empty_like(a);
    const int blocks = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
    auto as = a.chunk(2), bs = b.chunk(2), cs = c.chunk(2);
    for (size_t i = 0; i < as.size(); i++) {
        c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
        c10::cuda::CUDAStreamGuard guard(stream);
        add<<<blocks, 128, 0, at::cuda::getCurrentCUDAStream()>>>(as[i].data_ptr<float>(), bs[i].data_ptr<float>(), cs[i].data_ptr<float>(), as[i].numel());
        C10_CUDA_CHECK(cudaStreamSynchronize(stream));
    }
    return c;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
