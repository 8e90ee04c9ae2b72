// problem: swiglu
// class: contents
// must: anything but passed
// why: gates below -66 give 0; silu(-70) is -2.8e-29 and times up = 1e20 far from 0
// proof: gate=-70, up=1e20: -2.8e-9, and it gives 0
// assay: launch sw grid=(ceil_div(rows * cols, 256)) block=(256) args=(gate, up, y, rows, cols)
__global__ void sw(const float* gate, const float* up, float* y, int rows, int cols)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= rows * cols) return;
    float g = gate[i];
    float s = g < -66.f ? 0.f : g / (1.f + expf(-g));
    y[i] = s * up[i];
}
