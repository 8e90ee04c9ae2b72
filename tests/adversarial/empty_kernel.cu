// problem: matmul
// attack: an empty kernel
// expect: incorrect
// because: what is not written is poison

__global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {}
