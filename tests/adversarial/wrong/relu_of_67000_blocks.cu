// problem: relu
// class: sizes
// must: anything but passed
// why: at most 67,000 blocks of 256 and no loop: elements from 17,152,000 on stay unwritten, of 17,825,792 in the range
// proof: assay grade --size n=17825792 refuses it
// assay: launch relu grid=(min(ceil_div(n, 256), 67000)) block=(256) args=(x, y, n)
__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.f);
}
