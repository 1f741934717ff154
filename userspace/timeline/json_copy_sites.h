// The part of a sample record that says where copies happened: frames, places, regions, their counts,
// the copied pages and what --verify found. Called by
// json_timeline.cc, which owns the record; spells the keys of this part. Pure.
#ifndef COWPROF_SINK_JSON_PLACES_H_
#define COWPROF_SINK_JSON_PLACES_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/sample.h"

namespace cowprof {

// Frames, places and regions are numbered in the order in which they appear; these are the numbers of the next ones.
struct PlaceNumbers {
  int frames = 0, places = 0, regions = 0;
};

// Appends `,"frames":[...],...`, nothing where there is nothing; counts `numbers` up.
void EncodePlaces(const Sample& sample, PlaceNumbers* numbers, std::string* out);
// The reverse. A number that was left out, as in a file that was cut, becomes an empty one.
void DecodePlaces(const nlohmann::ordered_json& record, PlaceNumbers* numbers, Sample* sample);

nlohmann::ordered_json NamesOfPlaceColumns();  // for the header: what stands where in a row

}  // namespace cowprof

#endif  // COWPROF_SINK_JSON_PLACES_H_
