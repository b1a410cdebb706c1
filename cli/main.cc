// krux: the command line.
//   krux run [flags] -- CMD …   one command with a limited part of a GPU, without Kubernetes
//   krux status [--json]        what the agent of this machine holds
//   krux top [--json]           what each container asks for and gets, live
//   krux set NAME --gpucores N  other shares for a living container
//   krux version
// Exit codes: 2 for wrong flags (nothing was changed), 125 for trouble of Krux's own, 126 and 127
// for a command that can't run or isn't there, else the command's own.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/agent_session.h"
#include "cli/child.h"
#include "cli/run_plan.h"
#include "cli/status.h"

namespace krux::cli {
namespace {

constexpr int kExitWrongUse = 2;

struct StatusFlags {
  bool json = false;
  std::string run_folder;
};

struct TopFlags {
  bool json = false;
  double interval = 1;
  int count = 0;
  std::string run_folder;
};

struct SetFlags {
  api::SetRequest request;
  std::string run_folder;
};

int Fail(int code, const std::string& message) {
  std::fprintf(stderr, "krux: %s\n", message.c_str());
  return code;
}

void AddRunFlags(CLI::App* run, RunFlags* flags) {
  run->add_option("--gpumem", flags->memory,
                  "GPU memory: 4GiB, 512MiB or 4096 (MiB); default: all of the card");
  run->add_option("--gpucores", flags->cores,
                  "percent of the card's time, 1 to 100; default: no guarantee");
  run->add_option(
      "--policy", flags->policy,
      "balance: at least --gpucores, more when the card is idle (default); fixed: never "
      "more; none: only what others leave");
  run->add_option("--priority", flags->priority, "latency, normal (default) or batch");
  run->add_option("--gpu", flags->gpu,
                  "auto (default): a real card if there is one, else the simulated one; sim; "
                  "nvidia; an index; or a UUID");
  run->add_option("--run-folder", flags->run_folder,
                  "folder of the local agent; default: the node's agent if there is one, else "
                  "/run/krux-local for root, $XDG_RUNTIME_DIR/krux or /tmp/krux-<uid>");
  run->footer(
      "The command follows after --, as in\n"
      "  krux run --gpumem 4GiB --gpucores 30 -- python train.py\n"
      "It ends when krux is killed. Programs that ignore LD_PRELOAD (static, set-user-id) "
      "are not limited.\n"
      "Exit code: the command's; 128 + n after signal n; 125 when Krux itself failed.");
}

int Run(const RunFlags& flags) {
  const auto plan = MakeRunPlan(flags);
  if (!plan) return Fail(kExitWrongUse, plan.error().message);
  const auto session = OpenSession(*plan);
  if (!session) {
    // An index or UUID that is not there is a wrong flag, seen late.
    const bool wrong = session.error().code == ErrorCode::kInvalidArgument;
    return Fail(wrong ? kExitWrongUse : kExitTrouble, session.error().message);
  }
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  return RunChild(plan->command, ChildEnvironment(environment, *session), *session);
}

int ShowStatus(const StatusFlags& flags) {
  const auto answer = AskStatus(flags.run_folder);
  if (!answer) return Fail(kExitTrouble, answer.error().message);
  const auto text = flags.json ? StatusJson(*answer) : StatusTable(*answer);
  if (!text) return Fail(kExitTrouble, text.error().message);
  std::fputs(text->c_str(), stdout);
  return 0;
}

// Redraws in place on a terminal; elsewhere one table, or one line of JSON, after the other.
int ShowTop(const TopFlags& flags) {
  const bool live = isatty(STDOUT_FILENO) != 0 && !flags.json;
  const int count = flags.count != 0 || live ? flags.count : 1;
  for (int shown = 1;; ++shown) {
    const auto answer = AskStatus(flags.run_folder);
    if (!answer) return Fail(kExitTrouble, answer.error().message);
    const auto text = flags.json ? TopJson(*answer) : TopTable(*answer);
    if (!text) return Fail(kExitTrouble, text.error().message);
    std::printf("%s%s", live ? "\x1b[H\x1b[2J" : "", text->c_str());
    if (std::fflush(stdout) != 0 || shown == count) return 0;
    const auto nanos = static_cast<long>(flags.interval * 1e9);
    const timespec pause{nanos / 1'000'000'000, nanos % 1'000'000'000};
    nanosleep(&pause, nullptr);
  }
}

int Set(const SetFlags& flags) {
  const auto set = SetShares(flags.run_folder, flags.request);
  if (set) return 0;
  const bool wrong = set.error().code == ErrorCode::kInvalidArgument;
  return Fail(wrong ? kExitWrongUse : kExitTrouble, set.error().message);
}

CLI::App* AddTop(CLI::App& app, TopFlags* flags) {
  CLI::App* top = app.add_subcommand("top", "show what each container asks for and gets, live");
  top->add_flag("--json", flags->json, "for programs: one line each time, once unless --count");
  top->add_option("--interval", flags->interval, "seconds between two looks (default 1)")
      ->check(CLI::Range(0.1, 3600.0));
  top->add_option("--count", flags->count, "so many looks; default: one, on a terminal no end")
      ->check(CLI::Range(1, 1'000'000));
  top->add_option("--run-folder", flags->run_folder, "as for run");
  return top;
}

CLI::App* AddSet(CLI::App& app, SetFlags* flags) {
  CLI::App* set = app.add_subcommand("set", "give a living container other shares, at once");
  set->add_option("container", flags->request.target,
                  "namespace/pod, namespace/pod/container, or an id, as `krux status` shows them")
      ->required();
  set->add_option("--gpucores", flags->request.cores, "percent of each card's time, 0 to 100")
      ->required()
      ->check(CLI::Range(0, 100));
  set->add_option("--policy", flags->request.policy, "balance, fixed or none; default: as it is");
  set->add_option("--run-folder", flags->run_folder, "as for run");
  return set;
}

// What comes after the first "--" is the command's, whatever it looks like.
std::vector<std::string> TakeCommand(std::vector<std::string>* words) {
  const auto dashes = std::find(words->begin(), words->end(), "--");
  if (dashes == words->end()) return {};
  std::vector<std::string> command(dashes + 1, words->end());
  words->erase(dashes, words->end());
  return command;
}

int Main(std::vector<std::string> words) {
  RunFlags run_flags;
  StatusFlags status_flags;
  TopFlags top_flags;
  SetFlags set_flags;
  run_flags.command = TakeCommand(&words);
  CLI::App app("Krux: share a GPU by memory and time", "krux");
  app.require_subcommand(1);
  CLI::App* run = app.add_subcommand("run", "run a command with a limited part of a GPU");
  AddRunFlags(run, &run_flags);
  CLI::App* status = app.add_subcommand("status", "show cards, containers and their shares");
  status->add_flag("--json", status_flags.json, "for programs");
  status->add_option("--run-folder", status_flags.run_folder, "as for run");
  CLI::App* top = AddTop(app, &top_flags);
  CLI::App* set = AddSet(app, &set_flags);
  CLI::App* version = app.add_subcommand("version", "show the version");
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    return Fail(kExitWrongUse, std::string(error.what()) + " (see krux --help, krux run --help)");
  }
  if (run->parsed()) return Run(run_flags);
  if (!run_flags.command.empty()) {
    return Fail(kExitWrongUse, "a command after -- belongs to `krux run` only");
  }
  if (status->parsed()) return ShowStatus(status_flags);
  if (top->parsed()) return ShowTop(top_flags);
  if (set->parsed()) return Set(set_flags);
  if (version->parsed()) std::printf("krux %s\n", KRUX_VERSION);
  return 0;
}

}  // namespace
}  // namespace krux::cli

int main(int argc, char** argv) {
  return krux::cli::Main(std::vector<std::string>(argv + 1, argv + argc));
}
