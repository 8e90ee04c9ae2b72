// problem: conv2d
// class: schedule
// race: lost update
// must: anything but passed
// why: a macro adds the halves of the input channels to y through a volatile pointer: two blocks of the same output may read the same old value
// proof: volatile is no atomic (CUDA guide, volatile); blocks of different z that meet
// assay: fill y value=0
// assay: launch conv grid=(ceil_div(height * width, 128), batch * out_channels, 2) block=(128) args=(x, weight, y, in_channels, out_channels, height, width)
#define ACCUMULATE(where, what) (*(volatile float*)&(where) += (what))
#define INSIDE(r, c) ((unsigned)(r) < (unsigned)h && (unsigned)(c) < (unsigned)w)

__global__ void conv(const float* x, const float* weight, float* y, int ci, int co, int h, int w)
{
    const int at = blockIdx.x * 128 + threadIdx.x, b = blockIdx.y / co, o = blockIdx.y % co, r = at / w, c = at % w;
    if (at >= h * w) return;
    float s = 0.0f;
    for (int i = blockIdx.z; i < ci; i += 2)
        for (int k = 0; k < 9; ++k)
            if (INSIDE(r + k / 3 - 1, c + k % 3 - 1))
                s += x[(((size_t)b * ci + i) * h + r + k / 3 - 1) * w + c + k % 3 - 1] * weight[((size_t)o * ci + i) * 9 + k];
    ACCUMULATE(y[(size_t)blockIdx.y * h * w + at], s);
}
