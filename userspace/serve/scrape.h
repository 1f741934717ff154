// Answers to scrapers of metrics, and refusals.
#ifndef COWPROF_SERVE_SCRAPE_H_
#define COWPROF_SERVE_SCRAPE_H_

#include <functional>
#include <memory>
#include <string>

#include "serve/http.h"
#include "serve/request_policy.h"

namespace cowprof {

// Completes an answer that grants nothing.
void Refuse(const Ruling& ruling, HttpAnswer* answer);

// Each connection is for one request: an idle one would take the place of another. `text`: makes what is served; null:
// there is nothing yet.
HttpAnswer AnswerScrape(const PageRequest& request, const RequestPolicy& policy,
                        const std::function<std::shared_ptr<const std::string>()>& text);

}  // namespace cowprof

#endif  // COWPROF_SERVE_SCRAPE_H_
