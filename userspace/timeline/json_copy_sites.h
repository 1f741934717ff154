// The part of a sample record that says where copies happened: frames, places, regions, their counts, the copied pages
// and what --verify found. Owns the keys of this part; json_timeline owns the record. Pure.
#ifndef COWPROF_TIMELINE_JSON_COPY_SITES_H_
#define COWPROF_TIMELINE_JSON_COPY_SITES_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/facts/sample.h"

namespace cowprof {

struct SampleRecord;

// Frames, places and regions are numbered in order of appearance; these are the next numbers.
struct CopySiteNumbers {
  int frames = 0, copy_sites = 0, growth_sites = 0, regions = 0;
};

// Appends `,"frames":[...],...` without the lists that are empty, and advances `numbers`.
void EncodeCopySites(const Sample& sample, CopySiteNumbers* numbers, std::string* out);
// The reverse. A number that is missing, as in a truncated file, becomes an empty entry.
void DecodeCopySites(const SampleRecord& record, CopySiteNumbers* numbers, Sample* sample);

nlohmann::ordered_json NamesOfCopySiteColumns();  // for the header: the columns of each kind of row

}  // namespace cowprof

#endif  // COWPROF_TIMELINE_JSON_COPY_SITES_H_
