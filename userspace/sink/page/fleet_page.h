// The data of the page on several recordings of one job (cowprof.fleet-page/1, docs/timeline.md).
#ifndef COWPROF_SINK_PAGE_FLEET_PAGE_H_
#define COWPROF_SINK_PAGE_FLEET_PAGE_H_

#include "model/judge/fleet.h"
#include "sink/page/page.h"

namespace cowprof {

PageData FleetPageData(const Fleet& fleet);

}  // namespace cowprof

#endif  // COWPROF_SINK_PAGE_FLEET_PAGE_H_
