// What instructions of PTX begin with. A statement that begins with another word is an error, as
// for the real compiler; what follows is not looked at.
#ifndef KRUX_SIM_CUDA_PTX_WORDS_H_
#define KRUX_SIM_CUDA_PTX_WORDS_H_

#include <string_view>

namespace krux::sim {

// REQUIRES: `word` is not empty.
bool IsPtxInstruction(std::string_view word);

}  // namespace krux::sim

#endif  // KRUX_SIM_CUDA_PTX_WORDS_H_
