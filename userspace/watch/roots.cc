#include "watch/roots.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

namespace cowprof {
namespace {

constexpr int kDeepest = 128;  // levels: parents are read one after the other, and may form a ring

class Tree {
 public:
  explicit Tree(const std::vector<SeenProcess>& seen) {
    for (const SeenProcess& process : seen) by_pid_[process.id.pid] = &process;
  }
  // nullptr: not seen, or younger than its child, whose parent's pid it took.
  const SeenProcess* ParentOf(const SeenProcess& process) const {
    const auto found = by_pid_.find(process.parent);
    return found != by_pid_.end() && found->second->id.start_ns <= process.id.start_ns ? found->second : nullptr;
  }
  // The process that was executed and forked this one, maybe over several generations.
  const SeenProcess& ProgramOf(const SeenProcess& process) const {
    const SeenProcess* program = &process;
    for (int i = 0; i < kDeepest && !program->execed; ++i) {
      const SeenProcess* parent = ParentOf(*program);
      if (parent == nullptr || !parent->python) break;
      program = parent;
    }
    return *program;
  }

 private:
  std::map<pid_t, const SeenProcess*> by_pid_;
};

bool IsWorker(const SeenProcess& process) {
  return process.duty == Duty::kLoader || process.duty == Duty::kPool || process.duty == Duty::kTrainer;
}

// The program that keeps this worker. nullptr: it has ended.
const SeenProcess* KeeperOf(const SeenProcess& worker, const Tree& tree) {
  const SeenProcess* parent = tree.ParentOf(worker);
  if (parent == nullptr || !parent->python) return nullptr;
  const SeenProcess& program = tree.ProgramOf(*parent);
  if (worker.start != StartMethod::kForkserver) return &program;
  const SeenProcess* of_server = tree.ParentOf(program);
  return of_server != nullptr && of_server->python ? &tree.ProgramOf(*of_server) : nullptr;
}

}  // namespace

std::vector<Root> FindRoots(const std::vector<SeenProcess>& seen) {
  const Tree tree(seen);
  std::map<const SeenProcess*, Why> candidates;
  for (const SeenProcess& process : seen) {
    if (process.matches) candidates[&process] = Why::kMatch;
    if (process.was) candidates.emplace(&process, *process.was);
    if (process.python && process.ranked) candidates.emplace(&tree.ProgramOf(process), Why::kRank);
    const SeenProcess* keeper = IsWorker(process) ? KeeperOf(process, tree) : nullptr;
    if (keeper != nullptr) candidates.emplace(keeper, Why::kForks);
  }
  std::vector<Root> roots;
  for (const auto& [process, why] : candidates) {
    bool below = false;
    const SeenProcess* parent = tree.ParentOf(*process);
    for (int i = 0; i < kDeepest && parent != nullptr && !below; ++i, parent = tree.ParentOf(*parent))
      below = candidates.count(parent) > 0;
    if (!below) roots.push_back({process->id, process->user, why});
  }
  std::sort(roots.begin(), roots.end(), [](const Root& a, const Root& b) {
    return std::tie(a.id.start_ns, a.id.pid) < std::tie(b.id.start_ns, b.id.pid);
  });
  return roots;
}

}  // namespace cowprof
