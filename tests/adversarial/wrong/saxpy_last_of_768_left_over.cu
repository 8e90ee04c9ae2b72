// problem: saxpy
// class: sizes
// must: anything but passed
// why: the number of blocks of 768 is rounded up with 768 - 2: a single element in the last block is never written
// proof: assay grade --size n=769 refuses it
// assay: launch axpy grid=(max((n + 766) // 768, 1)) block=(768) args=(alpha, x, y, out, n)

__global__ void axpy(float alpha, const float* x, const float* y, float* out, int n)
{
    const int i = blockIdx.x * 768 + threadIdx.x;
    if (i < n) out[i] = fmaf(alpha, x[i], y[i]);
}
