// One round of glances, and what follows from it for each process.
#include "recorder/hang_watch.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "posix/clock.h"
#include "recorder/hang_look.h"

namespace cowprof {
namespace {

// Ticks are not exactly a second apart. A round that costs more than this share of a core comes less often, but often
// enough to name a hang within 10 s.
constexpr absl::Duration kLeastGap = absl::Milliseconds(900), kMostGap = absl::Seconds(3);
constexpr double kGlanceShare = 0.001;
// Of one round, some 20 ms: 64 workers with a pool of 64 threads each must not delay the sample.
constexpr size_t kMostGlances = 2000;  // threads
// Looks into processes: on average this share of a core; at once as much as some workers that hang together need. Half
// of it is kept for processes of which all threads wait: workers with an idle pool of threads must not delay those.
constexpr double kLookShare = 0.003;
constexpr absl::Duration kMostAllowance = absl::Seconds(1), kMostLookedInTick = absl::Milliseconds(150);
// Between two looks into a process that hangs never, or whose parent does not wait for it yet, while it moves. The
// longer one applies where some of its threads go on, as beside an idle pool of threads, and no wait is new.
constexpr absl::Duration kFirstGap = absl::Seconds(1), kMostGapOfNews = absl::Seconds(4),
                         kMostGapOtherwise = absl::Seconds(60);
// Of which all threads wait, while it does not move: a look may meet a parent that is just changing.
constexpr int kLooksInVain = 3;
constexpr size_t kMostSeen = 256;

const ThreadGlance* FindThread(const std::vector<ThreadGlance>& glance, pid_t tid) {
  const auto found = absl::c_find_if(glance, [tid](const ThreadGlance& thread) { return thread.tid == tid; });
  return found == glance.end() ? nullptr : &*found;
}

bool Waits(const ThreadGlance& thread) { return thread.futex != 0; }
bool AllWait(const std::vector<ThreadGlance>& glance) { return absl::c_all_of(glance, Waits); }

bool IsStill(const std::vector<ThreadGlance>& before, const ThreadGlance& now) {
  const ThreadGlance* then = FindThread(before, now.tid);
  return Waits(now) && then != nullptr && *then == now;
}

// A thread that has not moved waits for a word that only its own process can change. Workers that wait for a semaphore
// of multiprocessing share it with others.
bool IsWorthALook(const std::vector<ThreadGlance>& before, const std::vector<ThreadGlance>& now) {
  return absl::c_any_of(now, [&](const ThreadGlance& thread) { return thread.is_private && IsStill(before, thread); });
}

bool SameThreads(const std::vector<ThreadGlance>& a, const std::vector<ThreadGlance>& b) {
  return absl::c_equal(a, b, [](const ThreadGlance& one, const ThreadGlance& other) { return one.tid == other.tid; });
}

void Say(const LivingProcess& process, std::vector<Hang> hangs, Sample* sample) {
  sample->events.push_back({.t = sample->t, .index = process.index, .what = HangsSeen{std::move(hangs)}});
}

absl::Duration CpuTime() { return ReadClock(CLOCK_THREAD_CPUTIME_ID); }

}  // namespace

bool HangWatch::IsForked(pid_t pid, Watched* watched) const {
  if (!watched->forked) {
    const absl::StatusOr<ProcStat> stat = proc_.ReadStat(pid);
    if (!stat.ok()) return false;
    watched->forked = stat->has_not_execed();
  }
  return *watched->forked;
}

bool HangWatch::MayLook(bool all_wait, absl::Duration t) {
  look_allowance_ = std::min(look_allowance_ + kLookShare * (t - allowed_t_), kMostAllowance);
  allowed_t_ = t;
  return look_allowance_ > (all_wait ? absl::ZeroDuration() : kMostAllowance / 2) &&
         looked_this_tick_ < kMostLookedInTick;
}

// What is found has not moved from the glance `before` until after the look: what two looks close to each other could
// mistake, such as threads that wake each other, has run meanwhile.
std::vector<Hang> HangWatch::Find(const LivingProcess& process, const Glance& before, const Watched& watched,
                                  absl::Duration t) {
  const absl::Duration began = CpuTime();
  const pid_t pid = process.id.pid;
  std::vector<Hang> hangs =
      FindHangs(proc_, {pid}, LookAtThreads(proc_, {pid}), &elf_cache_, snapshot_of_(process.index));
  const Glance after = hangs.empty() ? Glance() : GlanceAtThreads(proc_, pid).value_or(Glance());
  std::erase_if(hangs, [&](const Hang& hang) {
    const ThreadGlance* thread = FindThread(after, hang.tid);
    // An owner that was not found may be a thread that began or ended while they were read.
    const bool missing = !hang.by_fork && hang.proof == HangProof::kOwnerGone && SameThreads(before, after);
    return !(hang.by_fork || missing) || thread == nullptr || !IsStill(before, *thread) ||
           (hang.proof == HangProof::kNever && after != before);
  });
  for (Hang& hang : hangs) {
    const auto moved = watched.moved.find(hang.tid);
    if (moved != watched.moved.end()) hang.waited = std::min(hang.waited, t - moved->second);
  }
  const absl::Duration took = CpuTime() - began;
  look_allowance_ -= took;
  looked_this_tick_ += took;
  return hangs;
}

void HangWatch::LookInto(const LivingProcess& process, const Glance& glance, Watched* watched, Sample* sample) {
  if (glance == watched->fruitless) return;
  const bool news = absl::c_any_of(glance, [&](const ThreadGlance& thread) {
    return thread.is_private && !watched->seen.contains({thread.futex, thread.stack_pointer});
  });
  const bool all_wait = AllWait(glance);
  const absl::Duration gap = news || all_wait ? std::min(watched->gap, kMostGapOfNews) : watched->gap;
  if (sample->t - watched->looked_t < gap || !MayLook(all_wait, sample->t)) return;
  const bool still = glance == watched->last;
  watched->hangs = Find(process, watched->last, *watched, sample->t);
  watched->looked_t = sample->t;
  if (watched->seen.size() > kMostSeen) watched->seen.clear();
  for (const ThreadGlance& thread : glance) {
    if (thread.is_private && IsStill(watched->last, thread)) watched->seen.emplace(thread.futex, thread.stack_pointer);
  }
  if (!watched->hangs.empty()) {
    watched->gap = kFirstGap;
    watched->looks_in_vain = 0;
    return Say(process, watched->hangs, sample);
  }
  watched->gap = std::clamp(2 * watched->gap, kFirstGap, kMostGapOtherwise);
  watched->looks_in_vain = still ? watched->looks_in_vain + 1 : 0;
  if (watched->looks_in_vain >= (all_wait ? kLooksInVain : 1)) watched->fruitless = glance;
}

// A signal that is handled, or a debugger, makes a thread run for an instant, but not go on. One that is stopped tells
// nothing.
bool HangWatch::HasWentOn(pid_t pid, const Hang& hang, const Watched& watched, const Glance& glance) const {
  const ThreadGlance* then = FindThread(watched.last, hang.tid);
  const ThreadGlance* now = FindThread(glance, hang.tid);
  if (now != nullptr && then != nullptr && now->futex == then->futex && now->stack_pointer == then->stack_pointer)
    return false;
  const absl::StatusOr<std::string> text = proc_.ReadFile(pid, absl::StrCat("task/", hang.tid, "/stat"));
  const absl::StatusOr<ProcStat> stat = text.ok() ? ParseStat(*text) : text.status();
  return !stat.ok() || (stat->state != 'T' && stat->state != 't');
}

void HangWatch::CheckHangs(const LivingProcess& process, const Glance& glance, Watched* watched, Sample* sample) {
  const bool went_on = absl::c_any_of(
      watched->hangs, [&](const Hang& hang) { return HasWentOn(process.id.pid, hang, *watched, glance); });
  if (went_on) {
    // `last` stays as it was when it hung, for the next glance.
    if (!std::exchange(watched->went_on_once, true)) return;
    watched->hangs.clear();
    watched->went_on_once = false;
    watched->last = glance;
    return Say(process, watched->hangs, sample);
  }
  watched->went_on_once = false;
  const bool has_victim = absl::c_any_of(watched->hangs, [](const Hang& hang) { return !hang.victims.empty(); });
  if (has_victim || sample->t - watched->looked_t < watched->gap || !MayLook(/*all_wait=*/false, sample->t)) return;
  // Who waits for it may have begun to wait since.
  std::vector<Hang> again = Find(process, glance, *watched, sample->t);
  watched->looked_t = sample->t;
  watched->gap = std::min(2 * watched->gap, kMostGapOtherwise);
  if (again.empty() || absl::c_all_of(again, [](const Hang& hang) { return hang.victims.empty(); })) return;
  watched->hangs = std::move(again);
  Say(process, watched->hangs, sample);
}

void HangWatch::GlanceAt(const LivingProcess& process, Watched* watched, Sample* sample) {
  absl::StatusOr<Glance> glance = GlanceAtThreads(proc_, process.id.pid);
  watched->tried_t = sample->t;
  glances_ += glance.ok() ? glance->size() : absl::IsResourceExhausted(glance.status()) ? kMostGlances : 1;
  if (absl::IsPermissionDenied(glance.status()) && !std::exchange(refused_, true)) {
    sample->events.push_back({.t = sample->t,
                              .what = Note{"who hangs is not told: not permitted to read what a process waits for "
                                           "(/proc/PID/task/TID/syscall); run cowprof with sudo"}});
  }
  if (!glance.ok()) return;
  for (const ThreadGlance& thread : *glance) {
    if (!IsStill(watched->last, thread)) watched->moved[thread.tid] = watched->last_t;
  }
  if (glance->size() < watched->moved.size()) {
    absl::erase_if(watched->moved, [&](const auto& one) { return FindThread(*glance, one.first) == nullptr; });
  }
  const Glance before = watched->last;
  watched->last_t = sample->t;
  if (!watched->hangs.empty()) {
    CheckHangs(process, *glance, watched, sample);
    if (watched->went_on_once) return;
  } else if (IsWorthALook(before, *glance)) {
    LookInto(process, *glance, watched, sample);
  }
  watched->last = *std::move(glance);
}

void HangWatch::Run(const Processes& processes, Sample* sample) {
  const absl::Duration began = CpuTime();
  for (const Event& event : sample->events) {
    if (!event.Is<ProcessExeced>()) continue;
    for (auto& [id, watched] : watched_) watched.forked.reset();
    break;
  }
  looked_this_tick_ = absl::ZeroDuration();
  if (sample->t >= next_glance_) {
    std::vector<std::pair<absl::Duration, const LivingProcess*>> living;  // by when they were last glanced at
    absl::flat_hash_set<ProcessId> ids;
    for (const LivingProcess* process : processes.by_index()) {
      living.emplace_back(watched_[process->id].tried_t, process);
      ids.insert(process->id);
    }
    absl::c_stable_sort(living, [](const auto& a, const auto& b) { return a.first < b.first; });
    glances_ = 0;
    for (const auto& [unused, process] : living) {
      if (glances_ >= kMostGlances) break;
      Watched& watched = watched_[process->id];
      if (IsForked(process->id.pid, &watched)) {
        GlanceAt(*process, &watched, sample);
      } else if (watched.forked && !watched.hangs.empty()) {  // another thread of it called exec
        watched.hangs.clear();
        Say(*process, {}, sample);
      }
    }
    absl::erase_if(watched_, [&](const auto& one) { return !ids.contains(one.first); });
    const absl::Duration glances = CpuTime() - began - looked_this_tick_;
    next_glance_ = sample->t + std::clamp(glances / kGlanceShare, kLeastGap, kMostGap);
  }
  cost_ += CpuTime() - began;
}

}  // namespace cowprof
