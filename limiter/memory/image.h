// How much memory the variables of a program image take on the card, read from the image itself,
// so that a module with gigabytes of them is refused before the driver makes room for it.
//
// A lower bound: what is compressed, or of a form that is not known, counts as 0 here and is
// charged by the agent, which sees it in the driver's figures.
//
// Pure functions. An image has no length, for the driver's own calls have none: it is read as far
// as its own headers say, as the driver does.
#ifndef KRUX_LIMITER_MEMORY_IMAGE_H_
#define KRUX_LIMITER_MEMORY_IMAGE_H_

#include <cstdint>

namespace krux::limiter {

// `image` is what cuModuleLoadData takes: a cubin, PTX text, a fat binary or its wrapper.
uint64_t VariableBytesOf(const void* image);

// PTX text alone, NUL-terminated.
uint64_t VariableBytesOfPtx(const char* text);

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_MEMORY_IMAGE_H_
