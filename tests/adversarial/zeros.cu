// problem: matmul
// attack: an answer of zeros
// expect: incorrect
// because: no problem's answer lies within the tolerance of zeros
// assay: fill c value=0
// assay: launch nothing grid=(1) block=(1) args=()

__global__ void nothing() {}
