// `krux status` and `krux top`: what an agent holds, as tables for people.
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

// `krux top`: a line for each container and card, what it asked for and what it gets.
Result<std::string> TopTable(std::string_view json);
// The same for programs: one line, a list with an object for each container and card.
Result<std::string> TopJson(std::string_view json);

// The status answer, indented.
Result<std::string> StatusJson(std::string_view json);

}  // namespace krux::cli

#endif  // KRUX_CLI_STATUS_H_
