// krux: the command line.
//   krux run [flags] -- CMD …   one command with a limited part of a GPU, without Kubernetes
//   krux status [--json]        what the agent of this machine holds
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
  run_flags.command = TakeCommand(&words);
  CLI::App app("Krux: share a GPU by memory and time", "krux");
  app.require_subcommand(1);
  CLI::App* run = app.add_subcommand("run", "run a command with a limited part of a GPU");
  AddRunFlags(run, &run_flags);
  CLI::App* status = app.add_subcommand("status", "show cards, containers and their shares");
  status->add_flag("--json", status_flags.json, "for programs");
  status->add_option("--run-folder", status_flags.run_folder, "as for run");
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
  if (version->parsed()) std::printf("krux %s\n", KRUX_VERSION);
  return 0;
}

}  // namespace
}  // namespace krux::cli

int main(int argc, char** argv) {
  return krux::cli::Main(std::vector<std::string>(argv + 1, argv + argc));
}
