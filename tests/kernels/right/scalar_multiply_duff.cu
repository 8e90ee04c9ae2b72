// problem: scalar_multiply
// assay: launch scale_duff grid=(ceil_div(n, 8 * 128)) block=(128) args=(x, y, alpha, n)
// style: Duff's device: a switch jumps into a do-while that scales eight neighbours a pass
__global__ void scale_duff(const float* x, float* y, float alpha, int n)
{
    int begin = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    int count = min(8, n - begin);
    if (count <= 0) return;
    const float* from = x + begin;
    float* to = y + begin;
    int passes = (count + 7) / 8;
    switch (count % 8) {
    case 0: do { *to++ = alpha * *from++;
    case 7:      *to++ = alpha * *from++;
    case 6:      *to++ = alpha * *from++;
    case 5:      *to++ = alpha * *from++;
    case 4:      *to++ = alpha * *from++;
    case 3:      *to++ = alpha * *from++;
    case 2:      *to++ = alpha * *from++;
    case 1:      *to++ = alpha * *from++;
            } while (--passes > 0);
    }
}
