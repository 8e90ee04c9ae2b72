# problem: saxpy
# style: a number by the name of forward's argument, torch.no_grad, an autograd function

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="saxpy",
    cpp_sources="torch::Tensor saxpy(torch::Tensor x, torch::Tensor y, float alpha);",
    cuda_sources="""
__global__ void saxpy_kernel(float alpha, const float* x, const float* y, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = fmaf(alpha, x[i], y[i]);
}
torch::Tensor saxpy(torch::Tensor x, torch::Tensor y, float alpha) {
  TORCH_CHECK(x.numel() == y.numel());
  auto out = torch::empty_like(x);
  int n = x.numel();
  saxpy_kernel<<<(n + 255) / 256, 256>>>(alpha, x.data_ptr<float>(), y.data_ptr<float>(), out.data_ptr<float>(), n);
  return out;
}
""",
    functions=["saxpy"],
    extra_cuda_cflags=["-O3", "--use_fast_math"],
)


class Saxpy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, alpha):
        ctx.save_for_backward(x, y)
        return ext.saxpy(x, y, alpha)


class ModelNew(nn.Module):
    @torch.no_grad()
    def forward(self, x, y, alpha=2.0):
        return Saxpy.apply(x, y, float(alpha))
