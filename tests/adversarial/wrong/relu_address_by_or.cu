// problem: relu
// class: memory (addresses)
// must: anything but passed
// why: joins address and offset by OR: right where a tensor begins at a multiple of its own size; a GPU promises 256 bytes
// proof: a tensor at an odd multiple of 256 bytes, n=128
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
__global__ void relu(const float* x, float* y, int n)
{
    size_t i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) *(float*)((size_t)y | i * 4) = fmaxf(*(const float*)((size_t)x | i * 4), 0.f);
}
