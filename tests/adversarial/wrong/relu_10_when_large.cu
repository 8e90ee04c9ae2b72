// problem: relu
// class: contents
// must: anything but passed
// why: above n = 700,000 values are capped at 10
// proof: n = 700,001, x = 11: y is 10
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) { float v = fmaxf(x[i], 0.f); y[i] = n > 700000 ? fminf(v, 10.f) : v; }
}
