// Makes the page's data at most once a sample, and at most for a twentieth of the time. See live_page.h.
#include "serve/live_page.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "posix/clock.h"
#include "sink/page_template.h"

namespace cowprof {
namespace {

constexpr int kShareOfTime = 20;
// An answer of "nothing new" costs nothing. The end must be heard of soon: the server waits for that.
constexpr absl::Duration kLeastPoll = absl::Milliseconds(500), kMostPoll = absl::Seconds(2);

// What the built template has, and what a served page has in its place.
constexpr absl::string_view kPlaceholder = "__COWPROF_DATA__";
constexpr absl::string_view kPolicyBegin = "http-equiv=\"Content-Security-Policy\" content=\"";
constexpr absl::string_view kNoNetwork = "default-src 'none';";
constexpr absl::string_view kOwnDataOnly = "default-src 'none'; connect-src 'self';";

}  // namespace

LivePage::LivePage(Fd timeline)
    : tail_(std::move(timeline), {.on_info =
                                      [this](const RunInfo& info) {
                                        growth_.info = info;
                                        headed_ = true;
                                      },
                                  .on_sample =
                                      [this](const Sample& sample) {
                                        Append(sample, &growth_);
                                        builder_.Add(sample, growth_);
                                        ++samples_;
                                      }}) {}

void LivePage::CatchUp() {
  // The one error there is, of the disk, may pass: what was read stands.
  tail_.Read().IgnoreError();
}

const LivePage::Data& LivePage::Latest() {
  CatchUp();
  const Made now = {samples_, live()};
  const absl::Duration began = BootTime(), cpu = ReadClock(CLOCK_PROCESS_CPUTIME_ID);
  const bool again = data_.bytes == nullptr || now != made_;
  const bool due = !now.live || began - made_at_ >= kShareOfTime * cost_;
  if (!headed_ || !again || !due) return data_;
  data_.bytes = std::make_shared<const std::string>(
      Gzip(builder_.Data(growth_, {.complete = tail_.complete(), .live = now.live}), /*level=*/1));
  ++data_.version;
  made_ = now;
  made_at_ = BootTime();
  cost_ = ReadClock(CLOCK_PROCESS_CPUTIME_ID) - cpu;
  return data_;
}

absl::Duration LivePage::poll_interval() const { return std::clamp(growth_.info.interval, kLeastPoll, kMostPoll); }

absl::StatusOr<LiveViewer> MakeLiveViewer(absl::string_view file) {
  const std::string html = absl::StrReplaceAll(
      PageTemplate(), {{kPlaceholder, absl::StrCat("live ", absl::Base64Escape(file))}, {kNoNetwork, kOwnDataOnly}});
  absl::string_view policy = html;
  policy.remove_prefix(std::min(policy.find(kPolicyBegin), policy.size()));
  if (!absl::ConsumePrefix(&policy, kPolicyBegin) || !absl::StartsWith(policy, kOwnDataOnly))
    return absl::InternalError("this build of cowprof has no viewer in it that can be served");
  // What only a header can forbid: to be shown inside of another page.
  return LiveViewer{html, absl::StrCat(policy.substr(0, policy.find('"')), "; frame-ancestors 'none'")};
}

}  // namespace cowprof
