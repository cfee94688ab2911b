// SPDX-License-Identifier: BSD-2-Clause
// The test driver for C++17; see cojoin/testing.h, whose functions take test::get().
#ifndef COJOIN_TESTING_HPP
#define COJOIN_TESTING_HPP

#include <string_view>
#include <vector>

#include <cojoin/cojoin.hpp>
#include <cojoin/testing.h>

namespace cojoin {

class test {
public:
  // The plan must outlive the test.
  explicit test(const plan &under_test)
      : test_(detail::made<handle>(cj_test_new(under_test.get(), nullptr))) {
  }
  test(const plan &under_test, const config &with)
      : test_(detail::made<handle>(cj_test_new(under_test.get(), with.get()))) {
  }

  test &topic(const char *name, int32_t partitions) {
    cj_test_topic(get(), name, partitions);
    return *this;
  }
  int64_t pipe(const char *topic, std::string_view key, std::string_view value, int64_t timestamp) {
    return cj_test_pipe(get(), topic, bytes(key), bytes(value), timestamp);
  }
  // Keys and values that may be null.
  int64_t pipe(const char *topic, cj_bytes key, cj_bytes value, int64_t timestamp) {
    return cj_test_pipe(get(), topic, key, value, timestamp);
  }
  void start_member(const char *member) {
    check(cj_test_start_member(get(), member));
  }
  void stop_member(const char *member) {
    cj_test_stop_member(get(), member);
  }
  void crash_member(const char *member) {
    cj_test_crash_member(get(), member);
  }
  void settle() {
    cj_test_settle(get());
  }
  void advance(int64_t ms) {
    cj_test_advance(get(), ms);
  }
  void commit() {
    cj_test_commit(get());
  }
  // All records of a partition so far: views, valid until the test ends.
  std::vector<cj_record> read(const char *topic, int32_t partition) {
    std::vector<cj_record> records;
    cj_record record;
    for (size_t i = 0; cj_test_read(get(), topic, partition, i, &record); i++)
      records.push_back(record);
    return records;
  }
  cj_read get(const char *table, std::string_view key, buffer &copy) {
    return cj_test_get(get(), table, bytes(key), copy.get());
  }
  int64_t metric(const char *name, const char *reason = nullptr) {
    return cj_test_metric(get(), name, reason);
  }
  cj_test *get() const noexcept {
    return test_.get();
  }

private:
  using handle = detail::owner<cj_test, cj_test_destroy>;
  handle test_;
};

} // namespace cojoin

#endif
