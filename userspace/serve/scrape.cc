#include "serve/scrape.h"

#include "absl/strings/str_cat.h"

namespace cowprof {

void Refuse(const Ruling& ruling, HttpAnswer* answer) {
  answer->body = std::make_shared<const std::string>(absl::StrCat(ruling.words, "\n"));
  answer->headers.insert(answer->headers.end(),
                         {{"Content-Type", "text/plain; charset=utf-8"}, {"Connection", "close"}});
  if (ruling.status == 405) answer->headers.emplace_back("Allow", "GET, HEAD");
}

HttpAnswer AnswerScrape(const PageRequest& request, const RequestPolicy& policy,
                        const std::function<std::shared_ptr<const std::string>()>& text) {
  const Ruling ruling = RuleOnMetrics(request, policy);
  HttpAnswer answer = {.status = ruling.status,
                       .headers = {{"Cache-Control", "no-store"},
                                   {"X-Content-Type-Options", "nosniff"},
                                   {"Cross-Origin-Resource-Policy", "same-origin"},
                                   {"Content-Security-Policy", "default-src 'none'"}}};
  if (ruling.asked != Asked::kMetrics) {
    Refuse(ruling, &answer);
    return answer;
  }
  answer.body = text();
  if (answer.body == nullptr) answer.status = 503;
  answer.headers.insert(answer.headers.end(),
                        {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}, {"Connection", "close"}});
  return answer;
}

}  // namespace cowprof
