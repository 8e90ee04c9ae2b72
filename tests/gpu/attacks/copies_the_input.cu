// problem: gelu
// attack: answers with the input, copied by a step of the plan; its kernel does nothing
// expect: incorrect
// because: the input is not within the tolerance
// rehearse: no
// assay: copy x y
// assay: launch nothing grid=(1) block=(1) args=()

__global__ void nothing()
{
}
