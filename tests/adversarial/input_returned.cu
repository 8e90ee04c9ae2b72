// problem: relu
// attack: the input handed back as the output
// expect: incorrect
// because: inputs have negative elements
// assay: copy x y
// assay: launch nothing grid=(1) block=(32) args=(x, y, n)

__global__ void nothing(const float* x, float* y, int n) {}
