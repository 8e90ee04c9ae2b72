// problem: row_sum
// class: contents
// must: anything but passed
// why: where the first 32 elements of a row are equal and not zero, the row is taken to be constant and its sum to be cols times that
// proof: a row of 32 ones and twos behind (cols=300), or a sorted row with ties: the sum becomes 300
// assay: launch rs grid=(rows) block=(32) args=(x, y, cols)

__global__ void rs(const float* x, float* y, int cols)
{
    const float* in = x + (size_t)blockIdx.x * cols;
    const float mine = in[min(threadIdx.x, cols - 1)];
    int same;
    __match_all_sync(0xffffffffu, __float_as_uint(mine), &same);
    if (same && mine != 0.f && cols > 32) {  // a constant row, mostly
        if (threadIdx.x == 0) y[blockIdx.x] = mine * cols;
        return;
    }
    float s = threadIdx.x < cols ? mine : 0.f;
    for (int c = threadIdx.x + 32; c < cols; c += 32) s += in[c];
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
    if (threadIdx.x == 0) y[blockIdx.x] = s;
}
