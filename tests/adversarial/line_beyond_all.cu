// problem: relu
// attack: a #line above 2**31 - 1, before a write out of bounds
// expect: runtime_error
// because: a claim about lines must not bring the grader down
// fault: out_of_bounds
#line 4294967295
__global__ void k(const float* x, float* y, int n) { int i = blockIdx.x * 256 + threadIdx.x; y[i + n] = x[0]; }
