// The viewer as web/ builds it: one HTML file with a placeholder for the data. page_template.S embeds the bytes.
#ifndef COWPROF_SINK_PAGE_PAGE_TEMPLATE_H_
#define COWPROF_SINK_PAGE_PAGE_TEMPLATE_H_

#include "absl/strings/string_view.h"

extern "C" const char cowprof_page_template[];
extern "C" const char cowprof_page_template_end[];

namespace cowprof {

inline absl::string_view PageTemplate() {
  return absl::string_view(cowprof_page_template, cowprof_page_template_end - cowprof_page_template);
}

}  // namespace cowprof

#endif  // COWPROF_SINK_PAGE_PAGE_TEMPLATE_H_
