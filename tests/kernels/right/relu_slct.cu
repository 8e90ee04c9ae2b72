// problem: relu
// assay: launch relu_slct grid=(ceil_div(n, 2 * 128)) block=(128) args=(x, y, n)
// style: PTX without branches: slct by the integer sign for one element, set and and for the next
__global__ void relu_slct(const float* x, float* y, int n)
{
    int i = (blockIdx.x * 128 + threadIdx.x) * 2;
    if (i < n) {
        float r;
        asm("slct.f32.s32 %0, %1, 0f00000000, %2;" : "=f"(r) : "f"(x[i]), "r"(__float_as_int(x[i])));
        y[i] = r;
    }
    if (++i < n) {
        unsigned mask, bits = __float_as_uint(x[i]);
        asm("set.gt.u32.f32 %0, %1, 0f00000000;" : "=r"(mask) : "f"(x[i]));
        asm("and.b32 %0, %0, %1;" : "+r"(bits) : "r"(mask));
        y[i] = __uint_as_float(bits);
    }
}
