// Two walks must agree before nothing is said to be in the way; findings must be there in two more readings.
#include "python/pickle_look.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "posix/clock.h"
#include "python/pickle_walk.h"

namespace cowprof {
namespace {

constexpr absl::Duration kBetweenReadings = absl::Milliseconds(10), kBetweenPauses = absl::Milliseconds(2);
constexpr int kMostRepeats = 2;                             // of a look at what changed meanwhile
constexpr absl::Duration kShort = absl::Milliseconds(200);  // that may be repeated for what was unreadable
// Of the samples of items, beside what the limits of a look allow.
constexpr uint64_t kMostSampledObjects = 100'000;
constexpr absl::Duration kMostSampling = absl::Seconds(2);
constexpr double kMost = 0.5;  // of all objects, which the container has whose items are told
constexpr absl::Duration kAfterFirst = absl::Milliseconds(3);  // for findings beside a sure one in what is torn down

// As within a walk, whoever asked goes on with what can't wait.
void Pause(const PickleLimits& limits) {
  for (absl::Duration left = kBetweenReadings; left > absl::ZeroDuration(); left -= kBetweenPauses) {
    absl::SleepFor(kBetweenPauses);
    if (limits.go_on) limits.go_on();
  }
}

PickleLook LookOf(const Interpreter& interpreter, const PickleRoot& root) {
  PickleLook look{.expression = root.expression, .python = interpreter.version};
  if (root.parts.empty()) return look;
  look.of_loader = root.of_loader;
  look.root = root.where.empty() ? root.expression : absl::StrCat(root.expression, " (", root.where, ")");
  return look;
}

// What the walk found goes into the look. Failures that were not seen again are marked.
void Move(PickleWalk* walk, const std::vector<bool>& kept, PickleLook* look) {
  look->objects = walk->objects;
  look->unreadable = walk->unreadable;
  look->capped = walk->capped;
  look->object_array = std::move(walk->object_array);
  look->object_array_items = walk->object_array_items;
  look->failures_left_out = walk->failures_left_out;
  look->unknowns_left_out = walk->unknowns_left_out;
  for (size_t i = 0; i < walk->failures.size(); ++i) {
    PickleWalk::Found& found = walk->failures[i];
    look->failures.push_back({.path = std::move(found.path),
                              .type = std::move(found.type),
                              .reason = found.reason,
                              .name = std::move(found.name),
                              .defined_at = std::move(found.defined_at),
                              .count = found.count,
                              .confirmed = kept[i],
                              .below_unknown = found.below_unknown});
  }
  for (PickleWalk::Found& found : walk->unknowns)
    look->unknowns.push_back({std::move(found.path), std::move(found.type), std::move(found.runs), found.count});
}

// Drops findings that another reading does not show. False: it was stopped at the limits.
bool Confirm(const Interpreter& interpreter, const MemoryReader& memory, const PickleRoot& root, const PickleWalk& walk,
             const PickleLimits& limits, bool ending, std::vector<bool>* kept) {
  PickleWalk again(interpreter, memory, limits, ending);
  for (size_t i = 0; i < walk.failures.size(); ++i) {
    const PickleWalk::Found& found = walk.failures[i];
    (*kept)[i] = (*kept)[i] && again.StillThere(root, walk.ChainTo(found.node), found);
  }
  return !again.capped;
}

// The items of the container that has most of the `objects` which a worker would be sent.
std::optional<PickleItems> ItemsOf(const Interpreter& interpreter, const MemoryReader& memory,
                                   const std::vector<PickleWalk::Container>& containers, double objects,
                                   PickleLimits limits) {
  limits.objects = std::min(limits.objects, kMostSampledObjects);
  limits.time = std::min(limits.time, kMostSampling);
  for (const PickleWalk::Container& container : containers) {
    auto sampled = PickleWalk(interpreter, memory, limits).SampleItems(container);
    if (sampled && sampled->second * sampled->first.count >= kMost * objects) return std::move(sampled->first);
  }
  return std::nullopt;
}

// `moved`: the root has, meanwhile.
PickleLook LookOnce(const Interpreter& interpreter, const MemoryReader& memory,
                    const std::function<PickleRoot(const MemoryReader&)>& find_root, const PickleLimits& limits,
                    PickleMix* mix, bool* moved) {
  const PickleRoot root = find_root(memory);
  PickleLook look = LookOf(interpreter, root);
  *moved = false;
  if (root.parts.empty()) return look;
  PickleWalk first(interpreter, memory, limits);
  first.Run(root);
  const PickleRoot again = find_root(memory);
  *moved = again.parts != root.parts;
  if (first.failures.empty() && first.unreadable == 0 && !first.capped && !*moved) {
    PickleWalk second(interpreter, memory, limits);
    second.Run(again);
    look.walks_agree = second.failures.empty() && second.unknowns.size() == first.unknowns.size() &&
                       second.unreadable == 0 && !second.capped;
  }
  std::vector<bool> kept(first.failures.size(), true);
  for (int reading = 0; reading < 2 && !first.failures.empty(); ++reading) {
    Pause(limits);
    first.capped |= !Confirm(interpreter, memory, find_root(memory), first, limits, /*ending=*/false, &kept);
  }
  Move(&first, kept, &look);
  look.refused = std::erase_if(look.failures, [](const PickleFailure& failure) { return !failure.confirmed; });
  // A lock is sent whole, whatever made it, and so is what the worker may fail to unpickle.
  const bool followed = first.unknowns_left_out == 0 && absl::c_all_of(first.unknowns, [](const auto& unknown) {
                          return unknown.in_worker || unknown.runs == kFollowsStartMethod;
                        });
  const bool whole = !first.capped && first.unreadable == 0 && followed && !first.unsized;
  look.bytes.best = first.bytes + first.rest_bytes;
  look.bytes.low = first.bytes - std::min(first.bytes, first.bytes / 10 + first.unsure_bytes / 2);
  if (whole) look.bytes.high = first.bytes + first.bytes / 10 + first.unsure_bytes;
  const double scale = static_cast<double>(look.bytes.best) / std::max<uint64_t>(first.bytes, 1);
  if (mix != nullptr) {
    *mix = first.mix;
    mix->scale = scale;
  }
  look.items = ItemsOf(interpreter, memory, first.containers, scale * first.objects, limits);
  return look;
}

}  // namespace

PickleLook LookAtPickle(const Interpreter& interpreter, const MemoryReader& memory,
                        const std::function<PickleRoot(const MemoryReader&)>& find_root, const PickleLimits& limits,
                        PickleMix* mix) {
  const absl::Duration began = BootTime();
  for (int repeats = 0;; ++repeats) {
    bool moved;
    PickleLook look = LookOnce(interpreter, memory, find_root, limits, mix, &moved);
    look.took = BootTime() - began;
    // A Process whose start() has just forked the worker lets go of what was sent.
    const bool torn = moved || (look.unreadable > 0 && look.took < kShort);
    if (!torn || look.capped || !look.failures.empty() || repeats == kMostRepeats) return look;
    Pause(limits);
  }
}

PickleLook LookAtEnding(const Interpreter& interpreter, const MemoryReader& memory, const MemoryReader& taken,
                        const PickleRoot& root, const PickleLimits& limits) {
  const absl::Duration began = BootTime();
  PickleLook look = LookOf(interpreter, root);
  if (root.parts.empty()) return look;
  PickleWalk* reading = nullptr;
  absl::Duration enough = absl::InfiniteDuration();
  PickleLimits until_found = limits;
  until_found.go_on = [&] {
    if (enough == absl::InfiniteDuration() && reading->HasSureFailure()) enough = BootTime() + kAfterFirst;
    return BootTime() < enough;
  };
  PickleWalk walk(interpreter, taken, until_found, /*ending=*/true);
  reading = &walk;
  walk.Run(root);
  std::vector<bool> kept(walk.failures.size(), true);
  Confirm(interpreter, memory, root, walk, limits, /*ending=*/true, &kept);
  Move(&walk, kept, &look);
  look.took = BootTime() - began;
  return look;
}

}  // namespace cowprof
