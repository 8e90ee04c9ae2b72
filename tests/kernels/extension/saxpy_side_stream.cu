// problem: saxpy
// style: a stream of its own between two events
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

__global__ void scaled(const float* x, float* out, float alpha, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = alpha * x[i];
}
__global__ void added(const float* y, float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] += y[i];
}

torch::Tensor forward(torch::Tensor x, torch::Tensor y, double alpha)
{
    static cudaStream_t side = nullptr;
    static cudaEvent_t begun, done;
    if (!side) {
        cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
        cudaEventCreateWithFlags(&begun, cudaEventDisableTiming);
        cudaEventCreateWithFlags(&done, cudaEventDisableTiming);
    }
    auto main = c10::cuda::getCurrentCUDAStream().stream();
    auto out = torch::empty_like(x);
    int n = x.numel(), blocks = (n + 255) / 256;
    cudaEventRecord(begun, main);
    cudaStreamWaitEvent(side, begun, 0);
    scaled<<<blocks, 256, 0, side>>>(x.data_ptr<float>(), out.data_ptr<float>(), alpha, n);
    cudaEventRecord(done, side);
    cudaStreamWaitEvent(main, done, 0);
    added<<<blocks, 256, 0, main>>>(y.data_ptr<float>(), out.data_ptr<float>(), n);
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
