// Proof that the limiter stands between the program and the driver. A preload library whose symbols
// are hidden, or that was loaded behind the driver, would limit nothing and say nothing.
// Called once, before cuInit reaches the driver.
#ifndef KRUX_LIMITER_LIFE_SELF_CHECK_H_
#define KRUX_LIMITER_LIFE_SELF_CHECK_H_

#include "limiter/life/problem.h"

namespace krux::limiter {

// Asks the loader, as the program's own references would, and compares with our entries.
Problem CheckHooksAreLive();

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_LIFE_SELF_CHECK_H_
