// Rebuilds the page's data at most once per sample, and spends at most a twentieth of the time on it.
#include "serve/live_page.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "posix/clock.h"
#include "sink/gzip.h"
#include "sink/page/page_template.h"

namespace cowprof {
namespace {

constexpr int kShareOfTime = 20;
// "Not modified" costs next to nothing. At most 2 s, as at the end the server waits for pages to fetch the rest.
constexpr absl::Duration kLeastPoll = absl::Milliseconds(500), kMostPoll = absl::Seconds(2);

// Strings of the built template and what replaces them in a served page.
constexpr absl::string_view kPlaceholder = "__COWPROF_DATA__";
constexpr absl::string_view kPolicyBegin = "http-equiv=\"Content-Security-Policy\" content=\"";
constexpr absl::string_view kNoNetwork = "default-src 'none';";
constexpr absl::string_view kOwnDataOnly = "default-src 'none'; connect-src 'self';";

}  // namespace

LivePage::LivePage(Fd timeline, bool page)
    : tail_(std::move(timeline), {.on_info =
                                      [this](const RunInfo& info) {
                                        run_.model.info = info;
                                        headed_ = true;
                                      },
                                  .on_sample =
                                      [this, page](const Sample& sample, const std::vector<Alert>& raised) {
                                        Append(sample, raised, &run_);
                                        if (page) builder_.Add(sample, raised, run_);
                                        tally_.Append(sample, raised, run_.model);
                                        read_at_ = BootTime();
                                        ++samples_;
                                      }}) {}

void LivePage::CatchUp() {
  // The only possible error is the disk's, and may be transient: what was read so far stays valid.
  tail_.Read().IgnoreError();
}

const LivePage::Data& LivePage::Latest() {
  CatchUp();
  const Made now = {samples_, live()};
  const absl::Duration began = BootTime(), cpu = ReadClock(CLOCK_PROCESS_CPUTIME_ID);
  const bool again = data_.bytes == nullptr || now != made_;
  const bool due = !now.live || began - made_at_ >= kShareOfTime * cost_;
  if (!headed_ || !again || !due) return data_;
  const PageData data = builder_.Data(run_.model, Judge(run_), {.complete = tail_.complete(), .live = now.live});
  data_.bytes = std::make_shared<const std::string>(Gzip(data.parts(), /*level=*/1));
  ++data_.version;
  made_ = now;
  made_at_ = BootTime();
  cost_ = ReadClock(CLOCK_PROCESS_CPUTIME_ID) - cpu;
  return data_;
}

std::shared_ptr<const std::string> LivePage::Metrics(const Fd& recorder) {
  CatchUp();
  const Made now = {samples_, live()};
  if (!headed_ || (metrics_ != nullptr && now == metrics_made_)) return metrics_;
  metrics_made_ = now;
  metrics_ = std::make_shared<const std::string>(MetricsText(
      run_.model, Judge(run_, Detail::kTick), {WallTimeOf(read_at_), ReadUse(recorder), now.live}, &tally_));
  return metrics_;
}

absl::Duration LivePage::sample_age() const { return samples_ == 0 ? absl::ZeroDuration() : BootTime() - read_at_; }

absl::Duration LivePage::poll_interval() const { return std::clamp(run_.model.info.interval, kLeastPoll, kMostPoll); }

absl::StatusOr<LiveViewer> MakeLiveViewer(absl::string_view file) {
  const std::string html = absl::StrReplaceAll(
      PageTemplate(), {{kPlaceholder, absl::StrCat("live ", absl::Base64Escape(file))}, {kNoNetwork, kOwnDataOnly}});
  absl::string_view policy = html;
  policy.remove_prefix(std::min(policy.find(kPolicyBegin), policy.size()));
  if (!absl::ConsumePrefix(&policy, kPolicyBegin) || !absl::StartsWith(policy, kOwnDataOnly))
    return absl::InternalError("this build of cowprof has no viewer in it that can be served");
  // frame-ancestors works in a header only, not in a <meta> element.
  return LiveViewer{html, absl::StrCat(policy.substr(0, policy.find('"')), "; frame-ancestors 'none'")};
}

}  // namespace cowprof
