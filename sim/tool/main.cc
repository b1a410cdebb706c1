// krux-sim: makes a simulated node, shows it, and breaks it while programs run.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <bit>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>

#include "common/units.h"
#include "sim/state/fault.h"
#include "sim/state/share.h"
#include "sim/state/state.h"

namespace krux::sim {
namespace {

Result<SharedState*> OpenExisting(const std::string& folder) {
  if (access((folder + "/state").c_str(), F_OK) != 0) {
    return Error{ErrorCode::kNotFound, "no simulated node in " + folder + ": run krux-sim init"};
  }
  return SharedState::Open(folder);
}

Result<Card*> FindCard(SharedState* state, uint32_t index) {
  if (index >= state->data().card_count) {
    return Error{ErrorCode::kInvalidArgument, "card " + std::to_string(index) +
                                                  " is not there: the node has " +
                                                  std::to_string(state->data().card_count)};
  }
  return &state->card(index);
}

void PrintCard(SharedState* state, uint32_t index) {
  Card& card = state->card(index);
  const unsigned char* u = card.uuid;
  const uint64_t used = state->UsedMemory(index);  // first: it frees what dead processes held
  unsigned int percent = 0;
  for (const Seat& seat : card.seats)
    percent += seat.used_bytes.load() > 0 ? seat.percent.load() : 0;
  std::printf(
      "card %u: %s GPU-%02x%02x%02x%02x-... %s, %llu of %llu MiB used, busy %u %%, %d at work%s\n",
      index, card.name, u[0], u[1], u[2], u[3], card.health.lost.load() != 0 ? "LOST" : "healthy",
      static_cast<unsigned long long>(used / kMiB),
      static_cast<unsigned long long>(card.memory_bytes / kMiB), percent,
      std::popcount(CardShare(&card).ReadAt(state->Now()).busy),
      card.stranger_bytes.load() > 0 ? ", part of it taken by krux-sim" : "");
  const CardHealth& health = card.health;
  if (health.xids.load() + health.ecc_corrected_aggregate.load() +
          health.ecc_uncorrected_aggregate.load() >
      0) {
    std::printf(
        "  errors: %llu XIDs, last %llu; ECC %llu corrected, %llu uncorrected%s\n",
        static_cast<unsigned long long>(health.xids.load()),
        static_cast<unsigned long long>(
            health.xids.load() == 0 ? 0
                                    : health.xid_log[(health.xids.load() - 1) % kXidLog].load()),
        static_cast<unsigned long long>(health.ecc_corrected_aggregate.load()),
        static_cast<unsigned long long>(health.ecc_uncorrected_aggregate.load()),
        health.needs_reset.load() != 0 ? "; needs a reset" : "");
  }
  for (const ProcessUse& use : state->Processes(index)) {
    const Seat& seat = card.seats[use.seat];
    std::printf("  pid %-8d %8llu MiB  busy %3u %%%s\n", use.pid,
                static_cast<unsigned long long>(use.used_bytes / kMiB), seat.percent.load(),
                use.is_orphan ? "  (dead; held by a child that it forked)" : "");
  }
}

Status ShowStatus(const std::string& folder) {
  KRUX_ASSIGN_OR_RETURN(SharedState* const state, OpenExisting(folder));
  for (uint32_t i = 0; i < state->data().card_count; ++i) PrintCard(state, i);
  return Ok();
}

// Memory that is taken by something outside of CUDA, as a display server or a foreign driver
// client.
Status TakeMemory(const std::string& folder, uint32_t index, uint64_t mib) {
  KRUX_ASSIGN_OR_RETURN(SharedState* const state, OpenExisting(folder));
  KRUX_ASSIGN_OR_RETURN(Card* const card, FindCard(state, index));
  const uint64_t before = card->stranger_bytes.load();
  const uint64_t most = state->FreeMemory(index) + before;
  if (mib > most / kMiB) {
    return Error{ErrorCode::kResourceExhausted,
                 "card " + std::to_string(index) + " has only " + FormatMemory(most) + " free"};
  }
  card->stranger_bytes.store(mib * kMiB);
  return Ok();
}

Status SetLost(const std::string& folder, uint32_t index, bool is_lost) {
  constexpr uint32_t kXidFellOffTheBus = 79;
  KRUX_ASSIGN_OR_RETURN(SharedState* const state, OpenExisting(folder));
  KRUX_ASSIGN_OR_RETURN(Card* const card, FindCard(state, index));
  const bool was_lost = card->health.lost.load() != 0;
  if (is_lost == was_lost) return Ok();
  if (is_lost) state->ReportXid(index, kXidFellOffTheBus);
  state->LoseCard(index, is_lost);
  return Ok();
}

Status RaiseXid(const std::string& folder, uint32_t index, uint32_t xid) {
  constexpr uint32_t kXidFellOffTheBus = 79;
  KRUX_ASSIGN_OR_RETURN(SharedState* const state, OpenExisting(folder));
  KRUX_RETURN_IF_ERROR(FindCard(state, index));
  if (xid == 0 || xid > 999) return Error{ErrorCode::kInvalidArgument, "XIDs are 1 to 999"};
  if (xid == kXidFellOffTheBus) return SetLost(folder, index, true);
  state->ReportXid(index, xid);
  return Ok();
}

Status ResetCard(const std::string& folder, uint32_t index) {
  KRUX_ASSIGN_OR_RETURN(SharedState* const state, OpenExisting(folder));
  KRUX_RETURN_IF_ERROR(FindCard(state, index));
  state->ResetCard(index);
  return Ok();
}

Status AddEcc(const std::string& folder, uint32_t index, uint64_t corrected, uint64_t uncorrected) {
  KRUX_ASSIGN_OR_RETURN(SharedState* const state, OpenExisting(folder));
  KRUX_RETURN_IF_ERROR(FindCard(state, index));
  if (corrected + uncorrected == 0) {
    return Error{ErrorCode::kInvalidArgument, "say how many: --corrected N, --uncorrected N"};
  }
  state->AddEccErrors(index, corrected, uncorrected);
  return Ok();
}

Status AdvanceTime(const std::string& folder, uint64_t microseconds) {
  KRUX_ASSIGN_OR_RETURN(SharedState* const state, OpenExisting(folder));
  constexpr uint64_t kMost = uint64_t{1} << 43;
  if (microseconds > kMost) return Error{ErrorCode::kInvalidArgument, "that is too far"};
  return state->AdvanceVirtualTime(static_cast<Nanos>(microseconds) * kMicrosecond);
}

const char* ActionName(FaultAction action) {
  switch (action) {
    case FaultAction::kFail:
      return "fail with";
    case FaultAction::kSlow:
      return "take ns more:";
    case FaultAction::kKill:
      return "kill the caller, signal";
  }
  return "?";
}

Status ShowFaults(const std::string& folder) {
  KRUX_ASSIGN_OR_RETURN(SharedState* const state, OpenExisting(folder));
  for (const FaultStatus& fault : PlannedFaults(state)) {
    std::printf("%u: %s %s %llu: in %llu calls, then %llu times%s; hit %llu so far\n", fault.slot,
                fault.plan.call.c_str(), ActionName(fault.plan.action),
                static_cast<unsigned long long>(fault.plan.value),
                static_cast<unsigned long long>(fault.plan.nth),
                static_cast<unsigned long long>(fault.plan.times),
                fault.plan.pid == 0 ? "" : " in one process",
                static_cast<unsigned long long>(fault.hits));
  }
  return Ok();
}

Status Plan(const std::string& folder, const FaultPlan& plan) {
  KRUX_ASSIGN_OR_RETURN(SharedState* const state, OpenExisting(folder));
  return PlanFault(state, plan);
}

Status Clear(const std::string& folder) {
  KRUX_ASSIGN_OR_RETURN(SharedState* const state, OpenExisting(folder));
  ClearFaults(state);
  return Ok();
}

int Report(const Status& status) {
  if (status) return 0;
  std::fprintf(stderr, "krux-sim: %s\n", status.error().message.c_str());
  return 1;
}

// One run of the tool: each command notes what is to be done, Main does it.
struct Commands {
  std::string folder = SimFolder();
  NodeOptions node;
  uint32_t card = 0;
  uint64_t mib = 0;
  uint32_t xid = 0;
  uint64_t corrected = 0;
  uint64_t uncorrected = 0;
  uint64_t microseconds = 0;
  uint64_t milliseconds = 0;
  FaultPlan plan;
  std::function<Status()> run;
};

CLI::App* Add(CLI::App* app, Commands* c, const char* name, const char* help,
              std::function<Status()> run) {
  CLI::App* command = app->add_subcommand(name, help);
  command->callback([c, run = std::move(run)] { c->run = run; });
  return command;
}

void AddNodeCommands(CLI::App* app, Commands* c) {
  CLI::App* init = Add(app, c, "init", "Make the node; fails if there is one",
                       [c] { return CreateState(c->folder, c->node); });
  init->add_option("--gpus", c->node.gpus, "Number of cards");
  init->add_option("--model", c->node.model, "H200, H100, A100, L40S, L4 or T4");
  init->add_option("--numa-nodes", c->node.numa_nodes, "NUMA nodes that the cards are spread over");
  init->add_option("--memory-mib", c->node.memory_mib,
                   "Memory of each card (default: the model's)");
  init->add_option("--name", c->node.name, "Name of the cards (default: the model's)");
  init->add_option("--node", c->node.node, "Node name: the same name gives the same card UUIDs");
  Add(app, c, "status", "Show cards, processes, memory, busy share, errors",
      [c] { return ShowStatus(c->folder); });
  CLI::App* advance = Add(app, c, "advance", "Move virtual time on (the first use starts it)",
                          [c] { return AdvanceTime(c->folder, c->microseconds); });
  advance->add_option("microseconds", c->microseconds, "How far")->required();
}

void AddCardCommands(CLI::App* app, Commands* c) {
  CLI::App* commands[] = {
      Add(app, c, "lose", "A card falls off the bus (XID 79)",
          [c] { return SetLost(c->folder, c->card, true); }),
      Add(app, c, "heal", "A lost card is back",
          [c] { return SetLost(c->folder, c->card, false); }),
      Add(app, c, "reset", "Reset a card: what ran on it is dead, volatile error counts are 0",
          [c] { return ResetCard(c->folder, c->card); }),
      Add(app, c, "take", "Take card memory outside of CUDA (0 gives it back)",
          [c] { return TakeMemory(c->folder, c->card, c->mib); }),
      Add(app, c, "xid", "Report an XID to those who watch the card's events",
          [c] { return RaiseXid(c->folder, c->card, c->xid); }),
      Add(app, c, "ecc", "Memory errors; an uncorrected one kills what runs and wants a reset",
          [c] { return AddEcc(c->folder, c->card, c->corrected, c->uncorrected); }),
  };
  for (CLI::App* command : commands) {
    command->add_option("card", c->card, "Index of the card")->required();
  }
  commands[3]->add_option("mib", c->mib, "MiB to hold in total")->required();
  commands[4]->add_option("xid", c->xid, "Number of the XID")->required();
  commands[5]->add_option("--corrected", c->corrected, "Corrected errors to add");
  commands[5]->add_option("--uncorrected", c->uncorrected, "Uncorrected errors to add");
}

void AddFaultCommands(CLI::App* app, Commands* c) {
  CLI::App* commands[] = {
      Add(app, c, "fail", "Let calls of libcuda or libnvidia-ml fail",
          [c] {
            c->plan.action = FaultAction::kFail;
            return Plan(c->folder, c->plan);
          }),
      Add(app, c, "slow", "Let calls take longer",
          [c] {
            c->plan.action = FaultAction::kSlow;
            c->plan.value = c->milliseconds * static_cast<uint64_t>(kMillisecond);
            return Plan(c->folder, c->plan);
          }),
      Add(app, c, "kill", "Kill the process that makes the call",
          [c] {
            c->plan.action = FaultAction::kKill;
            c->plan.value = SIGKILL;
            return Plan(c->folder, c->plan);
          }),
  };
  for (CLI::App* command : commands) {
    command->add_option("call", c->plan.call, "cuMemAlloc, nvmlInit, ...; * for any")->required();
    command->add_option("--nth", c->plan.nth, "The first call that is meant, from now (1)");
    command->add_option("--times", c->plan.times, "How many calls in a row (1)");
    command->add_option("--pid", c->plan.pid, "Only in this process, as it sees itself");
  }
  commands[0]->add_option("--code", c->plan.value, "CUresult or nvmlReturn_t")->required();
  commands[1]->add_option("--ms", c->milliseconds, "Milliseconds")->required();
  Add(app, c, "faults", "Show the planned faults", [c] { return ShowFaults(c->folder); });
  Add(app, c, "clear", "Forget the planned faults", [c] { return Clear(c->folder); });
}

int Main(int argc, char** argv) {
  CLI::App app("Makes a simulated GPU node, shows it, and breaks it while programs run.");
  app.require_subcommand(1);
  Commands commands;
  app.add_option("--folder", commands.folder,
                 "Folder of the node (default $KRUX_SIM_FOLDER or /run/krux-sim)");
  AddNodeCommands(&app, &commands);
  AddCardCommands(&app, &commands);
  AddFaultCommands(&app, &commands);
  CLI11_PARSE(app, argc, argv);
  return Report(commands.run());
}

}  // namespace
}  // namespace krux::sim

int main(int argc, char** argv) {
  try {
    return krux::sim::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "krux-sim: %s\n", error.what());
    return 1;
  }
}
