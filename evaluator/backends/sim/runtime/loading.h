// Where the program is that this process runs: linked with the runtime, or in a library, for one that is compiled
// quickly. A part of runtime.cpp.
#pragma once
#include "machine.h"
#include <dlfcn.h>
#include <stdio.h>

const Program *PROGRAM;
extern "C" const Program assay_program __attribute__((weak));

namespace {

// False where this library has none, or cannot be loaded: then stderr says why.
bool find_program(const char *library) {
    PROGRAM = &assay_program;
    if (!library) return true;
    void *loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    PROGRAM = loaded ? (const Program *)dlsym(loaded, "assay_program") : nullptr;
    if (!PROGRAM) {
        const char *why = dlerror();
        fprintf(stderr, "%s\n", why ? why : "the library has no program");
    }
    return PROGRAM;
}

} // namespace
