// Raises an alert when a limit is about to be met, once for each crossing: for each kind of limit, rules with a
// threshold and a time for which it must hold. And once for each process that can never go on. Pure: time and figures
// are passed in. Runs at every tick and, with the limits' figures alone, several times between two ticks;
// docs/alerts.md says what it promises.
#ifndef COWPROF_MODEL_JUDGE_ALERT_H_
#define COWPROF_MODEL_JUDGE_ALERT_H_

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "model/estimate/start_up.h"
#include "model/estimate/usage_ramp.h"
#include "model/facts/sample.h"
#include "model/judge/diagnosis.h"
#include "model/judge/top_contributor.h"

namespace cowprof {

struct Forecast;

enum class AlertRule { kRatio, kEta, kHang };
template <>
inline constexpr auto kNamesOf<AlertRule> = NamesFor<AlertRule>("ratio", "eta", "hang");

// A limit is about to be met, or (kHang) a process can never go on; raised once for each crossing, or process.
struct Alert {
  absl::Duration t;
  AlertRule rule = AlertRule::kRatio;
  bool over = false;  // the alert of this rule and limit has ended: it fell below again, is gone, or can't be read
  LimitKind kind = LimitKind::kHost;  // of kHang without meaning
  std::string name;                   // of the limit; kHang: "worker 4711"
  uint64_t limit = 0, used = 0;
  std::optional<absl::Duration> eta;  // until the limit is met; absent: it is not expected to be
  int index = -1;                     // process that grows most; -1: none is known. kHang: that hangs
  std::string cause;  // what grows: a Cause's name, "new-memory", "shm", "descriptors", "mappings"; "": not known.
                      // kHang: a HangKind's
  std::string text, advice;  // one sentence each
  // Of the first finding that fits the limit and what grows, by ExplainAlerts: its id, what is said of it first, and
  // the line of the program. None: nothing is found yet.
  std::string diagnosis, headline;
  std::optional<Culprit> culprit;
  bool operator==(const Alert&) const = default;
  LimitKey limit_key() const { return {kind, name}; }
  // "cgroup-v2", or "hang".
  const char* kind_name() const { return rule == AlertRule::kHang ? NameOf(rule) : NameOf(kind); }
};

// The latest of each rule and limit, unless it is over.
std::vector<const Alert*> StandingOf(const std::vector<Alert>& alerts);

// Whether a standing alert gave a time that still counts at `now`: one of kRatio stands for as long as its limit is
// nearly full, whether anything grows or not.
bool TellsTime(const Alert& alert, absl::Duration now);

// Both rules of one kind of limit. Without a threshold the rule is off; without a hold it is in proportion to the time
// that is left.
struct AlertRules {
  std::optional<double> ratio = 0.9;                     // share of the limit that is used
  std::optional<absl::Duration> eta = absl::Minutes(2);  // until the limit is met
  std::optional<absl::Duration> ratio_hold, eta_hold;
};

struct AlertSettings {
  std::array<AlertRules, kCountOf<LimitKind>> of_kind;
  bool hangs = true;
  const AlertRules& of(LimitKind kind) const { return of_kind[static_cast<size_t>(kind)]; }
  bool any() const;
};

class AlertWatch {
 public:
  explicit AlertWatch(const AlertSettings& settings) : settings_(settings) {}

  // Call between ticks. Returns true if a tick at once is worth its cost.
  bool Look(absl::Duration t, const std::vector<LimitSample>& limits);
  // When to look again, on the clock of the samples; infinite if every rule is off.
  absl::Duration next_look() const;
  // Call at a tick, when `model` already has the sample. Returns the alerts to raise or to end now.
  std::vector<Alert> Judge(const Sample& sample, const RunModel& model, const Forecast& forecast);

 private:
  struct Rule {
    std::optional<absl::Duration> met_since, calm_since;
    double value_then = 0;  // used when it was met
    bool raised = false;
  };
  struct Watched {
    LimitSample now;
    UsageRamp ramp;
    Rule ratio, eta;
    std::shared_ptr<const HeldByAll> then;  // what every process held before the climb
  };

  // What every process held, and what was used, some time ago.
  struct Earlier {
    absl::Duration t;
    std::shared_ptr<const HeldByAll> held;  // null: nothing yet
    std::vector<LimitSample> limits;
  };

  struct TimeLeftOf {
    std::optional<absl::Duration> eta;  // absent: the limit is not expected to be met
    // If the limit is met by copying alone and nothing tells how far that goes: the most that can still be copied.
    std::optional<double> most_copies;
  };

  Watched& Observe(absl::Duration t, const LimitSample& limit);
  bool RatioHeld(const Watched& watched, absl::Duration t) const;
  bool EtaHeld(const Watched& watched, absl::Duration t) const;
  bool IsDue(const Watched& watched, absl::Duration t) const;
  bool IsStartUp(const Watched& watched, const TopContributor& top_contributor, const RunModel& model) const;
  // Of a long climb: whoever began it may have stopped long ago.
  TopContributor NowInsteadOf(const TopContributor& of_climb, const Watched& watched, const RunModel& model) const;
  TimeLeftOf TimeLeft(const Watched& watched, const TopContributor& top_contributor, const RunModel& model,
                      const Forecast& forecast) const;
  void JudgeHangs(const Sample& sample, const RunModel& model, std::vector<Alert>* alerts);
  // `unread`: the sample does not have it.
  void JudgeLimit(bool unread, const RunModel& model, const Forecast& forecast, Watched* watched,
                  std::vector<Alert>* alerts);

  AlertSettings settings_;
  std::vector<Watched> watched_;
  std::shared_ptr<const HeldByAll> last_held_;  // at the last tick
  Earlier earlier_, recent_;                    // kRecent apart, or more
  absl::Duration t_, last_tick_, next_ask_, ask_gap_;
  StartUp start_up_;
  std::map<int, std::string> hung_;  // by index, as it was named: an alert stands
};

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_ALERT_H_
