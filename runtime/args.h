// The command line of an OCI runtime, as far as krux-runtime must understand it: which call it is,
// where the bundle and the log are, and which container is meant. The argument list itself is
// handed to the real runtime unchanged.
//
// Called by main once. Pure.
#ifndef KRUX_RUNTIME_ARGS_H_
#define KRUX_RUNTIME_ARGS_H_

#include <optional>
#include <string>
#include <vector>

#include "common/error.h"

namespace krux::runtime {

enum class Verb {
  kPassThrough,  // everything that is none of our business: start, exec, state, kill, features, ...
  kCreate,       // create, and run (which creates and starts)
  kDelete,
};

struct Args {
  Verb verb = Verb::kPassThrough;
  std::string log_path;          // --log; empty: standard error only
  bool log_is_json = false;      // --log-format json
  std::string bundle = ".";      // create: --bundle
  std::string container_id;      // create and delete
  std::optional<Error> refusal;  // set: the call can't be understood safely and must not go on
};

// `arguments` without the program's own name. Flags are taken as runc and crun take them (one or
// two dashes, value after '=' or as the next argument). A create without a container id is passed
// through, so that the real runtime says what is wrong.
Args ParseArgs(const std::vector<std::string>& arguments);

// Container ids end up in paths: letters, digits, '_', '+', '-', '.', at most 1024, not "." or
// "..".
bool IsContainerId(const std::string& id);

}  // namespace krux::runtime

#endif  // KRUX_RUNTIME_ARGS_H_
