// Sums over many words of 64 bits that hold a small number for each of several places: all places at once.
#ifndef COWPROF_MODEL_ESTIMATE_PLACE_SUMS_H_
#define COWPROF_MODEL_ESTIMATE_PLACE_SUMS_H_

#include <array>
#include <cstdint>

namespace cowprof {

// Adds up, place by place, numbers of `kBits` bits that lie beside each other in words and are at most `kMost`: many at
// once, since this is asked for each chunk of each worker.
template <int kBits, int kMost>
class PlaceSums {
 public:
  static constexpr int kPlaces = 64 / kBits;
  void Add(uint64_t word) {
    for (int i = 0; i < kWords; ++i) bytes_[i] += word >> kBits * i & kLowest;
    if (++added_ == 255 / kMost) Carry();
  }
  const std::array<uint64_t, kPlaces>& Get() {
    Carry();
    return sums_;
  }

 private:
  static constexpr int kWords = 8 / kBits;
  static constexpr uint64_t kLowest = 0x0101'0101'0101'0101 * ((1 << kBits) - 1);  // of the places that share a byte
  void Carry() {
    for (int i = 0; i < kPlaces; ++i) sums_[i] += bytes_[i % kWords] >> 8 * (i / kWords) & 0xff;
    bytes_ = {};
    added_ = 0;
  }

  std::array<uint64_t, kWords> bytes_ = {};
  std::array<uint64_t, kPlaces> sums_ = {};
  int added_ = 0;
};

// Returns how many bits are set in each group of four, in four bits for each.
inline uint64_t HitsByGroup(uint64_t bits) {
  const uint64_t pairs = bits - (bits >> 1 & 0x5555'5555'5555'5555);
  return (pairs & 0x3333'3333'3333'3333) + (pairs >> 2 & 0x3333'3333'3333'3333);
}

}  // namespace cowprof

#endif  // COWPROF_MODEL_ESTIMATE_PLACE_SUMS_H_
