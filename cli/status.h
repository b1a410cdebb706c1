// `krux status`: what an agent holds, as a table for people.
// Thread rule: a pure function.
#ifndef KRUX_CLI_STATUS_H_
#define KRUX_CLI_STATUS_H_

#include <string>
#include <string_view>

#include "common/result.h"

namespace krux::cli {

// The agent's status answer as a table: the cards, then a line for each container and card. Fields
// that are missing or of another kind show as "-"; an {"ok":false} answer becomes its Error.
Result<std::string> StatusTable(std::string_view json);

// The same answer, indented.
Result<std::string> StatusJson(std::string_view json);

}  // namespace krux::cli

#endif  // KRUX_CLI_STATUS_H_
