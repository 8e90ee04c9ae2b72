// problem: conv2d
// style: constant memory that is filled from the device, a loop over filters by narrow and select
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__constant__ float taps[1024 * 9];

__global__ void filter(const float* x, float* y, int channels, int height, int width, int from_image, int to_image)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (col >= width) return;
    const float* image = x + (size_t)blockIdx.z * from_image;
    float sum = 0.f;
    for (int channel = 0; channel < channels; channel++)
        for (int i = -1; i <= 1; i++)
            for (int j = -1; j <= 1; j++)
                if (row + i >= 0 && row + i < height && col + j >= 0 && col + j < width)
                    sum += taps[9 * channel + 3 * (i + 1) + j + 1] * image[((size_t)channel * height + row + i) * width + col + j];
    y[(size_t)blockIdx.z * to_image + row * width + col] = sum;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight)
{
    auto stream = at::cuda::getCurrentCUDAStream();
    const int channels = x.size(1), height = x.size(2), width = x.size(3);
    TORCH_CHECK(channels <= 1024, "too many channels: ", channels);
    auto y = torch::zeros({x.size(0), weight.size(0), height, width}, x.options());
    for (int out = 0; out < weight.size(0); out++) {
        auto filters = weight.select(0, out).narrow(0, 0, channels).contiguous();
        cudaMemcpyToSymbolAsync(taps, filters.data_ptr<float>(), filters.nbytes(), 0, cudaMemcpyDeviceToDevice, stream);
        filter<<<dim3((width + 63) / 64, height, x.size(0)), 64, 0, stream.stream()>>>(
            x.data_ptr<float>(), y[0][out].data_ptr<float>(), channels, height, width, x.stride(0), y.stride(0));
    }
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
