// problem: relu
// class: sizes
// must: anything but passed
// why: four launches of a slice of 2^22 elements each cover 2^24 elements, the timed size, and no more
// proof: assay grade --size n=16777300 refuses it
// assay: launch relu_slice grid=(min(ceil_div(n, 256), 16384)) block=(256) args=(x, y, 0, n)
// assay: launch relu_slice grid=(min(ceil_div(n, 256), 16384)) block=(256) args=(x, y, 4194304, n)
// assay: launch relu_slice grid=(min(ceil_div(n, 256), 16384)) block=(256) args=(x, y, 8388608, n)
// assay: launch relu_slice grid=(min(ceil_div(n, 256), 16384)) block=(256) args=(x, y, 12582912, n)

__global__ void relu_slice(const float* x, float* y, int offset, int n)
{
    const int i = offset + blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float r;
    asm("max.f32 %0, %1, 0f00000000;" : "=f"(r) : "f"(x[i]));
    y[i] = r;
}
