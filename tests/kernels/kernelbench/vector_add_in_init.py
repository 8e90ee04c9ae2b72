# problem: vector_add
# style: compiled when the model is made, cuda text alone without torch's header in it, contiguous() before
from torch import nn
from torch.utils import cpp_extension

CUDA = r"""
#include <c10/cuda/CUDAException.h>

template <typename T> __global__ void add(const T* a, const T* b, T* c, size_t n)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

at::Tensor add_forward(const at::Tensor& a, const at::Tensor& b)
{
    at::Tensor c = at::empty_like(a);
    const int64_t n = a.numel();
    add<float><<<(n + 127) / 128, 128>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), n);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return c;
}
"""


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.ops = cpp_extension.load_inline(
            "adds",
            cpp_sources=["at::Tensor add_forward(const at::Tensor& a, const at::Tensor& b);"],
            cuda_sources=[CUDA],
            functions=["add_forward"],
            extra_cuda_cflags=["-O3"],
        )

    def forward(self, a, b):
        return self.ops.add_forward(a.contiguous(), b.contiguous())
