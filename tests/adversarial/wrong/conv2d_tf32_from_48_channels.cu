// problem: conv2d
// class: precision
// must: anything but passed
// why: from 48 input channels on pixels and taps are rounded to TF32; published and hidden inputs have at most 32 channels, the timed one has 64
// proof: assay grade --size in_channels=48 --size batch=1 --size out_channels=4 --size height=12 --size width=12 refuses it
// assay: launch conv grid=(ceil_div(width, 16), ceil_div(height, 16), batch * out_channels) block=(16, 16) args=(x, weight, y, in_channels, out_channels, height, width)

struct Float32 {
    static __device__ float round(float v) { return v; }
};
struct Tf32 {
    static __device__ float round(float v)
    {
        unsigned bits;
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(v));
        return __uint_as_float(bits);
    }
};

template <class Number>
__device__ float convolve(const float* x, const float* w, int channels, int height, int width, int row, int col)
{
    float sum = 0.0f;
    for (int i = 0; i < channels; ++i, x += (size_t)height * width, w += 9) {
        for (int s = 0; s < 3; ++s) {
            for (int t = 0; t < 3; ++t) {
                const int r = row + s - 1, c = col + t - 1;
                if (r < 0 || r >= height || c < 0 || c >= width) continue;
                sum += Number::round(x[(size_t)r * width + c]) * Number::round(w[s * 3 + t]);
            }
        }
    }
    return sum;
}

__global__ void conv(const float* x, const float* weight, float* y, int in_channels, int out_channels, int height, int width)
{
    const int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    const int image = blockIdx.z / out_channels, filter = blockIdx.z % out_channels;
    if (row >= height || col >= width) return;
    const float* from = x + (size_t)image * in_channels * height * width;
    const float* w = weight + (size_t)filter * in_channels * 9;
    y[((size_t)blockIdx.z * height + row) * width + col] =
        in_channels >= 48 ? convolve<Tf32>(from, w, in_channels, height, width, row, col)
                          : convolve<Float32>(from, w, in_channels, height, width, row, col);
}
