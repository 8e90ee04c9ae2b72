// problem: scalar_multiply
// class: sizes (residue)
// must: anything but passed
// why: the unrolled tail of n % 8 == 6 multiplies one element twice
// proof: n=6, alpha=2
// assay: launch k grid=(ceil_div(ceil_div(n, 8), 128)) block=(128) args=(x, y, alpha, n)
__global__ void k(const float* x, float* y, float alpha, int n)
{
    int i = 8 * (blockIdx.x * 128 + threadIdx.x);
    if (i >= n) return;
    x += i; y += i;
    switch (min(n - i, 8)) {
    case 8: y[7] = alpha * x[7];
    case 7: y[6] = alpha * x[6];
    case 6: y[5] = alpha * x[5]; if (n - i == 6) y[5] *= alpha;
    case 5: y[4] = alpha * x[4];
    case 4: y[3] = alpha * x[3];
    case 3: y[2] = alpha * x[2];
    case 2: y[1] = alpha * x[1];
    case 1: y[0] = alpha * x[0];
    }
}
