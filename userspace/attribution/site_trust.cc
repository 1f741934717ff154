// Gives trust after enough looks with one cause, and takes it back at the first look with another.
#include "attribution/site_trust.h"

#include <algorithm>

#include "model/saturating.h"

namespace cowprof {
namespace {

// An instruction is trusted once this many copies were looked at and all had one cause. One that adds 1 to an object's
// head needs fewer: it can be nothing else. One that takes 1 is never trusted: the value decides whether an object
// dies.
constexpr uint64_t kEnoughOfIncrement = 16, kEnough = 256;

uint32_t Bit(Cause cause) { return 1u << static_cast<int>(cause); }

}  // namespace

std::vector<SiteVerdict> SiteTrust::Judge(const absl::flat_hash_map<Site, Looked>& looked,
                                          absl::FunctionRef<WriteKind(uint32_t image, uint64_t ip)> kind_of) {
  std::vector<SiteVerdict> verdicts;
  for (const auto& [key, seen] : looked) {
    const auto [image, ip] = key;
    State& site = states_[key];
    const uint64_t copies = Sum(seen.copies);
    for (const Cause cause : kAll<Cause>) {
      if (seen.copies[static_cast<int>(cause)] != 0) site.causes |= Bit(cause);
    }
    const bool one_cause = site.causes == Bit(seen.cause);
    if (site.trust == Trust::kGiven) {
      site.audited = std::max(site.audited, SaturatingSubtract(copies, site.looked_before));
      if (!one_cause) {
        site.trust = Trust::kLost;
        site.contradicted = copies - seen.copies[static_cast<int>(site.cause)];
        verdicts.push_back({ip, image, COWPROF_SHAPE_UNREAD});
      }
    } else if (site.trust == Trust::kNone && one_cause && seen.cause != Cause::kFree) {
      const WriteKind kind = kind_of(image, ip);
      const uint64_t enough = kind == WriteKind::kIncrement ? kEnoughOfIncrement : kEnough;
      if (kind == WriteKind::kDecrement || copies < enough) continue;
      site = {site.causes, Trust::kGiven, seen.cause, copies};
      verdicts.push_back({ip, image, seen.shape});
    }
  }
  return verdicts;
}

void SiteTrust::AddTo(CauseEvidence* evidence) const {
  evidence->audited += ended_audited_;
  evidence->contradicted += ended_contradicted_;
  for (const auto& [key, site] : states_) {
    evidence->audited += site.audited;
    evidence->contradicted += site.contradicted;
  }
}

void SiteTrust::Forget(const absl::flat_hash_set<uint32_t>& images) {
  absl::erase_if(states_, [&](const auto& entry) {
    if (!images.contains(entry.first.first)) return false;
    ended_audited_ += entry.second.audited;
    ended_contradicted_ += entry.second.contradicted;
    return true;
  });
}

}  // namespace cowprof
