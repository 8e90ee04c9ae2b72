// problem: vector_add
// attack: directives inside a string and a block comment, where they must not count
// expect: incorrect
// because: a directive stands at the start of a line, outside strings and comments; the plan is inferred

/*
// assay: copy a c
*/
__device__ const char text[] = R"(
// assay: temp t float32 (n)
// assay: launch add grid=(0) block=(9999) args=()
)";

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = text[i % 8];
}
