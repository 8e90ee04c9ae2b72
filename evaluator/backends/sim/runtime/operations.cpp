// The operations of programs that are compiled quickly, compiled once and well.
#define QUICKLY
#define OPERATIONS
#include "operations.h"
