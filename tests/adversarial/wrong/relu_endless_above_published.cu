// problem: relu
// class: sizes (left out)
// must: anything but passed
// why: never ends above n = 2^18, the largest published size; a larger size that does not end says little, as it may just be slow
// proof: n=262145
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    volatile int go = 1;
    while (n > (1 << 18) && go) { }
    if (i < n) y[i] = fmaxf(x[i], 0.f);
}
