#include "scheduler/simulate/chooser.h"

#include <algorithm>

#include "scheduler/simulate/krux_chooser.h"
#include "scheduler/simulate/published_chooser.h"

namespace krux::simulate {

const std::vector<std::string>& PolicyNames() {
  static const std::vector<std::string> names = {"fragmentation", "binpack", "spread",
                                                 "fgd",           "bestfit", "random"};
  return names;
}

Result<std::unique_ptr<Chooser>> MakeChooser(const Setting& setting,
                                             const std::vector<NodeShape>& nodes,
                                             const Trace& trace) {
  const int policy = krux_policy(setting.policy.c_str());
  if (policy >= 0) {
    const Trace* known = setting.knowledge == Knowledge::kWholeTrace ? &trace : nullptr;
    return std::unique_ptr<Chooser>(std::make_unique<KruxChooser>(
        static_cast<uint32_t>(policy), nodes, known, setting.disturbance));
  }
  for (const auto& [name, published] :
       {std::pair{"fgd", PublishedPolicy::kFgd}, std::pair{"bestfit", PublishedPolicy::kBestFit},
        std::pair{"random", PublishedPolicy::kRandom}}) {
    if (setting.policy != name) continue;
    return std::unique_ptr<Chooser>(
        std::make_unique<PublishedChooser>(published, nodes, trace, setting.disturbance));
  }
  std::string names;
  for (const std::string& name : PolicyNames()) names += (names.empty() ? "" : ", ") + name;
  return Error(ErrorCode::kInvalidArgument,
               "policy '" + setting.policy + "' is not known: use one of " + names);
}

}  // namespace krux::simulate
