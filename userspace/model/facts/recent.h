// The last so many values of a series, oldest first. Adding one costs the same however many there are.
#ifndef COWPROF_MODEL_FACTS_RECENT_H_
#define COWPROF_MODEL_FACTS_RECENT_H_

#include <cstddef>
#include <utility>
#include <vector>

namespace cowprof {

template <typename T, size_t kMost>
class Recent {
 public:
  void Add(const T& value) { AddPlace() = value; }
  // For a value that is set field by field. Until then it may hold anything.
  T& AddPlace() {
    if (values_.size() < kMost) return values_.emplace_back();
    T& place = values_[first_];
    if (++first_ == kMost) first_ = 0;
    return place;
  }
  size_t size() const { return values_.size(); }
  bool empty() const { return values_.empty(); }
  const T& operator[](size_t i) const {
    const size_t at = first_ + i;
    return values_[at < values_.size() ? at : at - values_.size()];
  }
  const T& back() const { return (*this)[size() - 1]; }
  void Clear() {
    values_.clear();
    first_ = 0;
  }
  // Gives the memory back, too.
  void Free() { *this = {}; }
  // The number of the first value for which `is` holds; size() if there is none.
  template <typename Is>
  size_t FirstThat(const Is& is) const {
    size_t i = 0;
    while (i < size() && !is((*this)[i])) ++i;
    return i;
  }

 private:
  std::vector<T> values_;
  size_t first_ = 0;  // where the oldest is
};

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_RECENT_H_
