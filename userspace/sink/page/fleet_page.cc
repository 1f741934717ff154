#include "sink/page/fleet_page.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "sink/report/fleet_report.h"
#include "timeline/json_fields.h"

namespace cowprof {

PageData FleetPageData(const Fleet& fleet) {
  PageData data;
  Json curves = Json::array();
  for (size_t i = 0; i < fleet.rows.size(); ++i) {
    Column times, private_kib;
    for (const MemoryCurve::Point& point : fleet.rows[i].memory.points()) {
      times.Add(MillisecondsOf(point.t));
      private_kib.Add(point.bytes ? Count(*point.bytes / 1024) : std::nullopt);
    }
    curves.push_back({{"begins_ms", absl::ToUnixMillis(fleet.begins[i])},
                      {"times_ms", data.columns.Append(std::move(times))},
                      {"private_kib", data.columns.Append(std::move(private_kib))}});
  }
  const Json page = {{"schema", "cowprof.fleet-page/1"},
                     {"tool", absl::StrCat("cowprof ", COWPROF_VERSION)},
                     {"fleet", FleetJson(fleet)},
                     {"curves", std::move(curves)}};
  data.json = absl::StrCat(Dump(page), "\n");
  return data;
}

}  // namespace cowprof
