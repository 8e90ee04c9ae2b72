// problem: layer_norm
// style: a class that owns device memory, destroyed at the end
#include <cuda_runtime.h>

template <typename T>
class DeviceBuffer {
  public:
    explicit DeviceBuffer(size_t count) { cudaMalloc(&data_, count * sizeof(T)); }
    ~DeviceBuffer() { cudaFree(data_); }
    DeviceBuffer(const DeviceBuffer&) = delete;
    operator T*() { return data_; }

  private:
    T* data_ = nullptr;
};

__global__ void moments(const float* x, float2* found, int cols)
{
    __shared__ float part[256];
    const float* row = x + (size_t)blockIdx.x * cols;
    float mean = 0.0f;
    for (int pass = 0; pass < 2; ++pass) {
        float mine = 0.0f;
        for (int c = threadIdx.x; c < cols; c += 256) {
            float v = row[c] - mean;
            mine += pass == 0 ? v : v * v;
        }
        part[threadIdx.x] = mine;
        for (int half = 128; half > 0; half /= 2) {
            __syncthreads();
            if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        }
        __syncthreads();
        float total = part[0] / cols;
        __syncthreads();
        if (pass == 0) mean = total;
        else if (threadIdx.x == 0) found[blockIdx.x] = make_float2(mean, total);
    }
}

__global__ void normalise(const float* x, const float* weight, const float* bias, const float2* found, float* y, float eps, int cols)
{
    float2 row = found[blockIdx.y];
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= cols) return;
    size_t i = (size_t)blockIdx.y * cols + c;
    y[i] = (x[i] - row.x) * rsqrtf(row.y + eps) * weight[c] + bias[c];
}

extern "C" void solve(const float* x, const float* weight, const float* bias, float* y, float eps, int rows, int cols)
{
    DeviceBuffer<float2> found(rows);
    moments<<<rows, 256>>>(x, found, cols);
    for (int first = 0; first < rows; first += 65535) {
        int many = rows - first < 65535 ? rows - first : 65535;
        size_t start = (size_t)first * cols;
        normalise<<<dim3((cols + 255) / 256, many), 256>>>(x + start, weight, bias, found + first, y + start, eps, cols);
    }
}
