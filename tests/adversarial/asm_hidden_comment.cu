// problem: vector_add
// attack: comments and odd names in inline assembly, around honest code
// expect: passed
// because: comments are no code

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    if (i < n) {
        asm("{ // */ system(\"id\") /*\n\t.reg .f32 %%main, $exit, _Exit_;\n\t/* } ; { */ mov.f32 %%main, %1;\n\t"
            "add.f32 $exit, %%main, %2;\n\tmov.f32 _Exit_, $exit;\n\tmov.f32 %0, _Exit_; }"
            : "=f"(sum)
            : "f"(a[i]), "f"(b[i]));
        c[i] = sum;
    }
}
