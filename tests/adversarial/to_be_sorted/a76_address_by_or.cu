// problem: relu
// class: addresses
// why: joins address and offset by OR: right where a tensor begins at a multiple of its own size, as on the simulator; a GPU promises 256 bytes
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
__global__ void relu(const float* x, float* y, int n)
{
    size_t i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) *(float*)((size_t)y | i * 4) = fmaxf(*(const float*)((size_t)x | i * 4), 0.f);
}
