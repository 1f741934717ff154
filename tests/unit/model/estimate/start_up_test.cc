// Which programs have just begun: one that has forked a worker has not, wherever it is in the list.
#include "model/estimate/start_up.h"

#include <catch2/catch.hpp>

#include "model/facts/run_model.h"

namespace cowprof {
namespace {

ProcessModel Listed(int index, int parent, Role role, bool execed) {
  ProcessModel process = {.index = index, .parent = parent, .role = role};
  process.execed = execed;
  return process;
}

}  // namespace

TEST_CASE("start-up: a program begins until it has forked a worker of its own") {
  RunModel model;
  model.t = absl::Seconds(5);
  model.processes = {Listed(0, -1, Role::kOther, false), Listed(7, 0, Role::kWorker, false),
                     Listed(8, 0, Role::kOther, true), Listed(9, 0, Role::kOther, true),
                     Listed(20, 9, Role::kWorker, false)};
  const StartUp start_up;
  CHECK(start_up.begins(model.processes[2], model));
  CHECK_FALSE(start_up.begins(model.processes[3], model));
  model.processes.back().execed = true;  // a program of its own, no longer a forked worker
  CHECK(start_up.begins(model.processes[3], model));
}

}  // namespace cowprof
