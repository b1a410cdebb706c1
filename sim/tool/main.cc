// krux-sim: makes a simulated node, shows it, and breaks it while programs run.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <bit>
#include <cstdio>
#include <exception>
#include <string>

#include "common/units.h"
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
      index, card.name, u[0], u[1], u[2], u[3], card.lost.load() != 0 ? "LOST" : "healthy",
      static_cast<unsigned long long>(used / kMiB),
      static_cast<unsigned long long>(card.memory_bytes / kMiB), percent,
      std::popcount(CardShare(&card).ReadAt(state->Now()).busy),
      card.stranger_bytes.load() > 0 ? ", part of it taken by krux-sim" : "");
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

Status SetLost(const std::string& folder, uint32_t index, bool is_lost) {
  KRUX_ASSIGN_OR_RETURN(SharedState* const state, OpenExisting(folder));
  KRUX_ASSIGN_OR_RETURN(Card* const card, FindCard(state, index));
  card->lost.store(is_lost ? 1 : 0);
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

int Report(const Status& status) {
  if (status) return 0;
  std::fprintf(stderr, "krux-sim: %s\n", status.error().message.c_str());
  return 1;
}

int Main(int argc, char** argv) {
  CLI::App app("Makes a simulated GPU node, shows it, and breaks it while programs run.");
  app.require_subcommand(1);
  std::string folder = SimFolder();
  app.add_option("--folder", folder,
                 "Folder of the node (default $KRUX_SIM_FOLDER or /run/krux-sim)");
  NodeOptions options;
  CLI::App* init = app.add_subcommand("init", "Make the node; fails if there is one");
  init->add_option("--gpus", options.gpus, "Number of cards");
  init->add_option("--model", options.model, "H200, H100, A100, L40S or T4");
  init->add_option("--memory-mib", options.memory_mib,
                   "Memory of each card (default: the model's)");
  init->add_option("--name", options.name, "Name of the cards (default: the model's)");
  init->add_option("--node", options.node, "Node name: the same name gives the same card UUIDs");
  CLI::App* status = app.add_subcommand("status", "Show cards, processes, memory, busy share");
  uint32_t card = 0;
  uint64_t mib = 0;
  CLI::App* lose = app.add_subcommand("lose", "A card falls off the bus");
  lose->add_option("card", card, "Index of the card")->required();
  CLI::App* heal = app.add_subcommand("heal", "A lost card is back");
  heal->add_option("card", card, "Index of the card")->required();
  CLI::App* take = app.add_subcommand("take", "Take card memory outside of CUDA (0 gives it back)");
  take->add_option("card", card, "Index of the card")->required();
  take->add_option("mib", mib, "MiB to hold in total")->required();
  CLI11_PARSE(app, argc, argv);
  if (init->parsed()) return Report(CreateState(folder, options));
  if (status->parsed()) return Report(ShowStatus(folder));
  if (lose->parsed()) return Report(SetLost(folder, card, true));
  if (heal->parsed()) return Report(SetLost(folder, card, false));
  return Report(TakeMemory(folder, card, mib));
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
