// problem: relu
// class: size (end of the range)
// why: at most 67,000 blocks of 256 and no loop: elements from 17,152,000 on stay unwritten, of 33,554,432 in the range
// assay: launch relu grid=(min(ceil_div(n, 256), 67000)) block=(256) args=(x, y, n)
__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.f);
}
