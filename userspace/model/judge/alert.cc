// The policy has two steps. Between ticks the limits' figures alone show that something may be wrong (MeetsRatio,
// IsDue); at a tick, what is known of the processes decides (TimeLeft). docs/alerts.md has the reasons for these
// figures.
#include "model/judge/alert.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "model/format.h"
#include "model/judge/alert_format.h"
#include "model/judge/diagnosis_facts.h"
#include "model/judge/forecast.h"
#include "model/judge/hang_format.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

// An ETA counts once this share of the limit is used, and this share of what was free at the beginning of the climb is
// gone: when the hold is over, half of a steady ramp is left. Shared memory fills up with batches in flight, and
// descriptors with files opened at the start: that is not a trend yet.
constexpr double kFloor = 0.27, kFloorOfOthers = 0.5;
// Loading a data set before there is any worker is a ramp, too, but not a leak.
constexpr double kLoadingFloor = 0.8;
// Below the ratio of the alert, of the limit; but at most this share of that ratio.
constexpr double kHysteresis = 0.05, kMostHysteresis = 0.1;
constexpr double kMostlyCopies = 0.75, kMostlyLeaving = 0.5;
// Copies end. How far they come, the forecast usually knows within seconds; until then, but no longer than this, the
// ratio alone watches those whose end nothing tells.
constexpr absl::Duration kLongestUntold = absl::Seconds(30);
// What the trends of a forecast leave out, such as a start-up, ends within that time (start_up.cc).
constexpr absl::Duration kLongestLeftOut = absl::Minutes(1);
constexpr absl::Duration kLeastHold = absl::Milliseconds(50), kRatioHold = absl::Seconds(2),
                         kEtaHold = absl::Seconds(10), kRatioCalm = absl::Seconds(2), kEtaCalm = absl::Seconds(10);
constexpr absl::Duration kLookGap = absl::Milliseconds(100), kLongestLookGap = absl::Seconds(2),
                         kLeastLookGap = absl::Milliseconds(20), kFirstAskGap = absl::Milliseconds(200),
                         kLongestAskGap = absl::Seconds(5);

constexpr absl::Duration kRecent = absl::Seconds(10);  // up to twice that: what grows now, of a longer climb

// What a program may fill in a second at most, so that a look in time needs no trend: bytes of two processes that do
// nothing else, files, mappings, descriptors.
double FastestFill(LimitKind kind) {
  switch (kind) {
    case LimitKind::kDescriptors:
      return 500;
    case LimitKind::kShmInodes:
    case LimitKind::kMappings:
      return 5e3;
    default:
      return 4e9;
  }
}

double Left(const LimitSample& limit) { return SaturatingSubtract(*limit.limit, limit.used); }

// Returns the time until the limit is met at the current rate; infinite if nothing grows.
absl::Duration StraightEta(const LimitSample& limit, const UsageRamp& ramp) {
  const double rate = ramp.rate();
  return rate > 0 && limit.limit ? absl::Seconds(Left(limit) / rate) : absl::InfiniteDuration();
}

bool MeetsRatio(const LimitSample& limit, const AlertRules& rules, double slack) {
  return rules.ratio && limit.ratio() &&
         *limit.ratio() >= *rules.ratio - std::min(slack, kMostHysteresis * *rules.ratio);
}

bool IsPast(const LimitSample& limit, const UsageRamp& ramp, double floor) {
  const double bound = *limit.limit;
  return limit.used >= floor * bound && ramp.gained() >= floor * (bound - ramp.base());
}

// What processes other than the target could still copy: the last holder of a page, usually the target, takes it over.
double CopiesLeft(const RunModel& model) {
  double bytes = 0;
  for (const ProcessModel& process : model.processes) {
    if (process.index > 0 && !process.ended) bytes += process.still_shared_bytes.value_or(0);
  }
  return bytes;
}

// The same if no two workers copy the same page, as when they share the items of an epoch.
double CopiesLeftIfShared(const RunModel& model) {
  double inherited = 0, copied = 0;
  for (const ProcessModel& process : model.processes) {
    if (process.index <= 0 || process.ended) continue;
    const double own = process.inherited_copies() * model.info.page_bytes;
    inherited = std::max(inherited, own + process.still_shared_bytes.value_or(0));
    copied += own;
  }
  return std::max(inherited - copied, 0.0);
}

// Whether nothing tells yet that these copies will meet the limit. Reading objects copies some of the pages that are
// shared, and which ones shows only where copies fall. A program that writes what it inherited is taken to write all of
// it, but not in each of its workers.
bool IsUntold(const UsageRamp& ramp, absl::Duration t, const TopContributor& top_contributor, double room,
              const RunModel& model, const Forecast& forecast) {
  if (forecast.plateau_known || t - ramp.began() > kLongestUntold) return false;
  return top_contributor.cause != NameOf(Cause::kData) || CopiesLeftIfShared(model) < room;
}

// The page map shows copies only when a sweep is done. Until then, what nobody's new memory explains may be copies.
double CopiedSince(double gained, const TopContributor& top_contributor, double copies_left, const RunModel& model) {
  const double counted = top_contributor.copied_bytes;
  if (model.info.exactness != Exactness::kPageMap) return std::min(counted, gained);
  const double unexplained = std::clamp(gained - top_contributor.gained_bytes, 0.0, copies_left);
  return std::min(counted + unexplained, gained);
}

// Share of what was gained that is not copies.
double NewShare(double gained, double copied) { return gained > 0 ? 1 - std::min(copied / gained, 1.0) : 0; }

}  // namespace

std::vector<const Alert*> StandingOf(const std::vector<Alert>& alerts) {
  std::map<std::pair<AlertRule, LimitKey>, const Alert*> latest;
  for (const Alert& alert : alerts) latest[{alert.rule, alert.limit_key()}] = &alert;
  std::vector<const Alert*> standing;
  for (const auto& [key, alert] : latest) {
    if (!alert->over) standing.push_back(alert);
  }
  return standing;
}

bool TellsTime(const Alert& alert, absl::Duration now) {
  if (!alert.eta) return false;
  return alert.rule == AlertRule::kEta || now - alert.t <= std::min(*alert.eta, kLongestLeftOut) + kEtaCalm;
}

bool AlertSettings::any() const {
  return std::any_of(of_kind.begin(), of_kind.end(), [](const AlertRules& rules) { return rules.ratio || rules.eta; });
}

AlertWatch::Watched& AlertWatch::Observe(absl::Duration t, const LimitSample& limit) {
  const auto same = [&](const Watched& one) { return one.now.key() == limit.key(); };
  auto found = std::find_if(watched_.begin(), watched_.end(), same);
  if (found == watched_.end()) found = watched_.insert(found, Watched{});
  Watched& watched = *found;
  watched.now = limit;
  watched.ramp.Add(t, limit.used);
  const AlertRules& rules = settings_.of(limit.kind);
  const auto note = [&](bool met, bool calm, Rule* rule) {
    if (!met) rule->met_since.reset();
    if (met && !rule->met_since) {
      rule->met_since = t;
      rule->value_then = limit.used;
    }
    if (!calm) rule->calm_since.reset();
    if (calm && !rule->calm_since) rule->calm_since = t;
  };
  note(MeetsRatio(limit, rules, 0), !MeetsRatio(limit, rules, kHysteresis), &watched.ratio);
  const UsageRamp& ramp = watched.ramp;
  const bool eta_met = rules.eta && limit.limit && StraightEta(limit, ramp) <= *rules.eta &&
                       IsPast(limit, ramp, IsMemory(limit.kind) ? kFloor : kFloorOfOthers) &&
                       limit.used > ramp.earlier_peak() && limit.used + ramp.still_to_come() > *limit.limit;
  note(eta_met, !eta_met, &watched.eta);
  return watched;
}

// Whether the condition has held for the time that was asked for, or for one in proportion to what is left, and the
// figure still grows.
bool AlertWatch::EtaHeld(const Watched& watched, absl::Duration t) const {
  if (!watched.eta.met_since) return false;
  const absl::Duration left = StraightEta(watched.now, watched.ramp), held = t - *watched.eta.met_since;
  const double gained = watched.now.used - watched.eta.value_then;
  return held >= settings_.of(watched.now.kind).eta_hold.value_or(std::clamp(left / 8, kLeastHold, kEtaHold)) &&
         gained >= watched.ramp.rate() * absl::ToDoubleSeconds(held) / 2 && watched.ramp.goes_on();
}

bool AlertWatch::RatioHeld(const Watched& watched, absl::Duration t) const {
  if (!watched.ratio.met_since) return false;
  const absl::Duration left = StraightEta(watched.now, watched.ramp);
  const std::optional<absl::Duration> hold = settings_.of(watched.now.kind).ratio_hold;
  return t - *watched.ratio.met_since >= hold.value_or(std::clamp(left / 2, kLeastHold, kRatioHold));
}

bool AlertWatch::IsDue(const Watched& watched, absl::Duration t) const {
  const auto calm = [&](const Rule& rule, absl::Duration time) {
    return rule.raised && rule.calm_since && t - *rule.calm_since >= time;
  };
  return (!watched.ratio.raised && RatioHeld(watched, t)) || (!watched.eta.raised && EtaHeld(watched, t)) ||
         calm(watched.ratio, kRatioCalm) || calm(watched.eta, kEtaCalm);
}

// After a tick that was asked for and brought no alert, the next one waits twice as long, but for less than what is
// left: a condition that is due but harmless, such as copies that fit, costs little.
bool AlertWatch::Look(absl::Duration t, const std::vector<LimitSample>& limits) {
  t_ = t;
  bool due = false;
  absl::Duration left = absl::InfiniteDuration();
  for (const LimitSample& limit : limits) {
    const Watched& watched = Observe(t, limit);
    due |= IsDue(watched, t);
    left = std::min(left, StraightEta(limit, watched.ramp));
  }
  if (!due) ask_gap_ = kFirstAskGap;
  if (!due || t < next_ask_) return false;
  next_ask_ = t + std::min(ask_gap_, std::max(left / 4, kLookGap));
  ask_gap_ = std::min(2 * ask_gap_, kLongestAskGap);
  return true;
}

absl::Duration AlertWatch::next_look() const {
  if (!settings_.any()) return absl::InfiniteDuration();
  absl::Duration gap = kLongestLookGap;
  for (const auto& [now, ramp, ratio, eta, then] : watched_) {
    if (!now.limit) continue;
    const double half = std::min(settings_.of(now.kind).ratio.value_or(1), 1.0) / 2 * *now.limit;
    const absl::Duration full = absl::Seconds(Left(now) / FastestFill(now.kind));
    const absl::Duration without_trend = std::max(now.used < half ? full / 4 : full / 8, kLookGap);
    gap = std::min({gap, StraightEta(now, ramp) / 20, without_trend});
  }
  return t_ + std::max(gap, kLeastLookGap);
}

// A start-up ends by itself, and looks like a leak until then: a program that has just begun is left to the ratio.
// Where the target had no worker for longer than that, most of the limit has to be gone.
bool AlertWatch::IsStartUp(const Watched& watched, const TopContributor& top_contributor, const RunModel& model) const {
  if (start_up_.target_begins()) return true;
  const ProcessModel* process = model.Find(top_contributor.index);
  if (IsMemory(watched.now.kind) && process != nullptr && start_up_.begins(*process, model)) return true;
  return start_up_.target_loads() && !IsPast(watched.now, watched.ramp, kLoadingFloor);
}

// Copies are bounded by what is still shared. If that fits, only what grows besides can meet the limit: it has to be a
// trend by the same measure as a ramp without copies (kFloor), since workers allocate memory as they start, too. If it
// does not fit, the forecast knows the shape of what is left (IsUntold); if it has no opinion, the straight line
// stands.
AlertWatch::TimeLeftOf AlertWatch::TimeLeft(const Watched& watched, const TopContributor& top_contributor,
                                            const RunModel& model, const Forecast& forecast) const {
  const LimitSample& limit = watched.now;
  const UsageRamp& ramp = watched.ramp;
  const absl::Duration straight = StraightEta(limit, ramp);
  if (straight == absl::InfiniteDuration()) return {};
  const double gained = ramp.gained(), copies_left = CopiesLeft(model), room = Left(limit);
  const double copied = CopiedSince(gained, top_contributor, copies_left, model);
  if (!IsMemory(limit.kind) || copied <= 0) return {straight};
  double new_share = NewShare(gained, copied);
  if (last_held_ != nullptr) {
    // Lately; what came before may have been the start.
    const TopContributor lately = TopContributorOf(limit.kind, 0, {*last_held_, last_tick_}, model);
    if (lately.gained_bytes > 0) new_share = std::min(new_share, NewShare(lately.gained_bytes, lately.copied_bytes));
  }
  const double new_rate = new_share < 1 - kMostlyCopies ? 0 : new_share * ramp.rate();
  const double room_for_new = std::max(room - copies_left, 0.0), gained_new = gained - copied;
  const bool trend = new_rate > 0 && gained_new >= kFloor * (gained_new + room_for_new);
  if (copies_left < room) {
    if (!trend) return {};
    const double copied_by_then = absl::ToDoubleSeconds(straight) * (ramp.rate() - new_rate);
    return {copied_by_then <= copies_left ? straight : absl::Seconds(room_for_new / new_rate)};
  }
  if (new_rate > 0 && gained_new >= kFloor * (*limit.limit - ramp.base())) return {straight};
  if (IsUntold(ramp, t_, top_contributor, room, model, forecast)) return {straight, copies_left};
  const auto same = [&](const LimitForecast& one) { return one.now.key() == limit.key(); };
  const auto found = std::find_if(forecast.limits.begin(), forecast.limits.end(), same);
  if (found == forecast.limits.end() || found->outlook == Outlook::kUnknown) return {straight};
  return {found->outlook == Outlook::kSafe ? std::nullopt : found->eta};
}

TopContributor AlertWatch::NowInsteadOf(const TopContributor& of_climb, const Watched& watched,
                                        const RunModel& model) const {
  const LimitSample& limit = watched.now;
  if (!IsMemory(limit.kind) || earlier_.held == nullptr || watched.ramp.began() >= earlier_.t) return of_climb;
  const auto then = absl::c_find_if(earlier_.limits, [&](const auto& one) { return one.key() == limit.key(); });
  if (then == earlier_.limits.end()) return of_climb;
  const double gained = SaturatingSubtract(limit.used, then->used);
  const double part = absl::FDivDuration(t_ - earlier_.t, t_ - watched.ramp.began());
  if (gained < kMostOfIt * part * watched.ramp.gained()) return of_climb;  // it hardly goes on
  return TopContributorOf(limit.kind, gained, {*earlier_.held, last_tick_}, model);
}

std::vector<Alert> AlertWatch::Judge(const Sample& sample, const RunModel& model, const Forecast& forecast) {
  t_ = sample.t;
  std::vector<Alert> alerts;
  if (settings_.hangs) JudgeHangs(sample, model, &alerts);
  if (!settings_.any() || sample.limits.empty()) return alerts;  // the target is gone, and its limits with it
  for (const LimitSample& limit : sample.limits) Observe(t_, limit);
  if (const std::optional<absl::Duration> loaded = start_up_.Learn(model)) {
    for (Watched& watched : watched_) watched.ramp.StartAt(*loaded);
  }
  const bool exiting = TargetIsExiting(sample);
  for (auto watched = watched_.begin(); watched != watched_.end();) {
    const auto is_it = [&](const LimitSample& one) { return one.key() == watched->now.key(); };
    const bool unread = std::none_of(sample.limits.begin(), sample.limits.end(), is_it);
    if (unread && exiting) {
      ++watched;
      continue;
    }
    if (watched->ramp.began() >= last_tick_) watched->then = last_held_;
    JudgeLimit(unread, model, forecast, &*watched, &alerts);
    watched = unread ? watched_.erase(watched) : std::next(watched);
  }
  if (!alerts.empty()) ask_gap_ = kFirstAskGap;
  last_held_ = std::make_shared<const HeldByAll>(HeldBy(model));
  last_tick_ = t_;
  if (recent_.held == nullptr || t_ - recent_.t >= kRecent)
    earlier_ = std::exchange(recent_, {t_, last_held_, sample.limits});
  return alerts;
}

// A process that hangs is told once. It is over if it went on after all, or has ended.
void AlertWatch::JudgeHangs(const Sample& sample, const RunModel& model, std::vector<Alert>* alerts) {
  for (const Event& event : sample.events) {
    const auto* seen = event.As<HangsSeen>();
    if (seen == nullptr && !event.Is<ProcessExited>()) continue;
    const bool over = seen == nullptr || seen->hangs.empty();
    const auto hung = hung_.find(event.index);
    const ProcessModel* process = model.Find(event.index);
    if (over ? hung == hung_.end() : hung != hung_.end() || process == nullptr) continue;
    Alert alert = {.t = t_, .rule = AlertRule::kHang, .over = over, .index = event.index};
    alert.name = over ? hung->second : HungName(*process);
    if (over) {
      hung_.erase(hung);
      alert.text = absl::StrCat(alert.name, seen == nullptr ? " has ended" : " went on after all");
    } else {
      hung_[event.index] = alert.name;
      const Hang& hang = seen->hangs.front();
      alert.cause = NameOf(hang.kind);
      alert.text = HangSentence(hang, alert.name);
      alert.advice = hang.fix;
    }
    alerts->push_back(std::move(alert));
  }
}

void AlertWatch::JudgeLimit(bool unread, const RunModel& model, const Forecast& forecast, Watched* watched,
                            std::vector<Alert>* alerts) {
  const LimitSample& limit = watched->now;
  const UsageRamp& ramp = watched->ramp;
  const bool gone = !limit.limit, over_now = gone || unread;
  const auto say = [&](AlertRule rule, const TimeLeftOf& left, const TopContributor& top_contributor, bool over) {
    Alert alert = {.t = t_, .rule = rule, .over = over, .kind = limit.kind, .name = limit.name};
    alert.limit = limit.limit.value_or(0);
    alert.used = limit.used;
    if (!over) {
      alert.eta = left.eta;
      alert.index = top_contributor.index;
      alert.cause = top_contributor.cause;
      alert.advice = AlertAdvice(alert, model);
    }
    alert.text = gone     ? absl::StrCat(FormatLimit(limit), ": the limit is gone")
                 : unread ? absl::StrCat(FormatLimit(limit), ": what is used can't be read any more")
                          : AlertText(alert, ramp.rate(), left.most_copies, model);
    alerts->push_back(std::move(alert));
  };
  for (const auto& [which, rule, calm] : {std::tuple(AlertRule::kRatio, &watched->ratio, kRatioCalm),
                                          std::tuple(AlertRule::kEta, &watched->eta, kEtaCalm)}) {
    if (!rule->raised || (!over_now && (!rule->calm_since || t_ - *rule->calm_since < calm))) continue;
    rule->raised = false;
    say(which, {}, {}, /*over=*/true);
  }
  const bool ratio = !watched->ratio.raised && RatioHeld(*watched, t_);
  const bool eta = !watched->eta.raised && EtaHeld(*watched, t_);
  if (over_now || (!ratio && !eta)) return;
  // For a climb that is as old as the recording.
  HeldByAll at_start;
  for (const LimitSample& one : model.info.limits) {
    if (one.kind == LimitKind::kShm) at_start.shm_bytes = one.used;
  }
  const TopContributor top_contributor =
      TopContributorOf(limit.kind, ramp.gained(), {watched->then ? *watched->then : at_start, last_tick_}, model);
  const TimeLeftOf left = TimeLeft(*watched, top_contributor, model, forecast);
  // A process's end is reported before its memory is given back (seen on Linux 6.18; older kernels report it after
  // exit_mm()): memory that is leaving meets no limit, unless the others make up for it. The next tick knows what is
  // left.
  const double much = kMostlyLeaving * ramp.gained();
  const bool leaving =
      IsMemory(limit.kind) && top_contributor.leaving_bytes >= much && top_contributor.gained_bytes <= much;
  if (eta && !leaving && !IsStartUp(*watched, top_contributor, model) && left.eta && !left.most_copies &&
      *left.eta <= *settings_.of(limit.kind).eta) {
    watched->eta.raised = true;
    say(AlertRule::kEta, left, NowInsteadOf(top_contributor, *watched, model), /*over=*/false);
  }
  if (ratio) {
    watched->ratio.raised = true;
    say(AlertRule::kRatio, left, NowInsteadOf(top_contributor, *watched, model), /*over=*/false);
  }
}

}  // namespace cowprof
