// SPDX-License-Identifier: BSD-2-Clause
// cojoin for C++17: handles that free themselves, callables instead of function pointers, errors as
// exceptions. Header-only; every function is a few lines over the C one, whose comment is the
// documentation.
//
// A callable is copied into the topology and destroyed with the plan. It must be noexcept, which is
// checked when it is compiled: an exception cannot pass through the library. All workers call the
// same object, so it is called as const; state of one task belongs into cj_node's task_open.
#ifndef COJOIN_COJOIN_HPP
#define COJOIN_COJOIN_HPP

#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <cojoin/cojoin.h>

namespace cojoin {

namespace detail {

template <class T, void (*Destroy)(T *)> struct destroyer {
  void operator()(T *handle) const noexcept {
    Destroy(handle);
  }
};
template <class T, void (*Destroy)(T *)> using owner = std::unique_ptr<T, destroyer<T, Destroy>>;

// A handle that a constructor of the library made; NULL means that there was no memory.
template <class Owner> Owner made(typename Owner::pointer handle) {
  if (!handle) throw std::bad_alloc();
  return Owner(handle);
}

// A string that the library allocated.
inline std::string taken(char *text) {
  std::unique_ptr<char, decltype(&std::free)> own(text, &std::free);
  if (!text) throw std::bad_alloc();
  return text;
}

} // namespace detail

// ---- bytes ----

inline cj_bytes bytes(std::string_view text) noexcept {
  // The empty view may have no pointer, and null is not what it means.
  return cj_bytes_of(text.data() ? text.data() : "", text.size());
}
// The same bytes as a view; null gives an empty one, so ask for the difference first.
inline std::string_view text(cj_bytes bytes) noexcept {
  return bytes.data ? std::string_view(static_cast<const char *>(bytes.data), bytes.len)
                    : std::string_view();
}
inline bool is_null(cj_bytes bytes) noexcept {
  return bytes.data == nullptr;
}
inline void append(cj_buf &buf, std::string_view text) noexcept {
  cj_buf_append(&buf, text.data(), text.size());
}

// A buffer of one's own, for app::read.
class buffer {
public:
  buffer() noexcept = default;
  buffer(const buffer &) = delete;
  buffer &operator=(const buffer &) = delete;
  buffer(buffer &&other) noexcept {
    std::swap(buf_, other.buf_);
  }
  buffer &operator=(buffer &&other) noexcept {
    std::swap(buf_, other.buf_);
    return *this;
  }
  ~buffer() {
    cj_buf_free(&buf_);
  }
  cj_buf *get() noexcept {
    return &buf_;
  }
  cj_bytes bytes() const noexcept {
    return cj_buf_bytes(&buf_);
  }
  std::string_view text() const noexcept {
    return cojoin::text(bytes());
  }

private:
  cj_buf buf_ = CJ_BUF_INIT;
};

// ---- errors and reports ----

// Thrown where the C function returns an error. Copies share the error.
class error : public std::exception {
public:
  explicit error(cj_error *owned) : error_(owned, cj_error_destroy) {
  }
  const char *what() const noexcept override {
    return cj_error_text(error_.get());
  }
  cj_code code() const noexcept {
    return cj_error_code(error_.get());
  }
  bool retriable() const noexcept {
    return cj_error_class(error_.get()) == CJ_CLASS_RETRIABLE;
  }
  const char *subject() const noexcept {
    return cj_error_subject(error_.get());
  }
  const char *message() const noexcept {
    return cj_error_message(error_.get());
  }
  // The checklist's report that refused the start, or NULL; valid as long as a copy of the error.
  const cj_report *report() const noexcept {
    return cj_error_report(error_.get());
  }
  const cj_error *get() const noexcept {
    return error_.get();
  }

private:
  std::shared_ptr<cj_error> error_;
};

// Throws the error, if it is one.
inline void check(cj_error *owned) {
  if (owned) throw error(owned);
}

class report {
public:
  explicit report(cj_report *owned) noexcept : report_(owned) {
  }
  cj_point_verdict verdict() const noexcept {
    return cj_report_verdict(get());
  }
  cj_point_verdict point(cj_point point) const noexcept {
    return cj_report_point(get(), point);
  }
  std::vector<std::string> evidence(cj_point point) const {
    std::vector<std::string> rows;
    for (size_t i = 0; i < cj_report_evidence_count(get(), point); i++)
      rows.emplace_back(cj_report_evidence(get(), point, i));
    return rows;
  }
  const char *remedy(cj_point point) const noexcept {
    return cj_report_remedy(get(), point);
  }
  const char *text() const noexcept {
    return cj_report_text(get());
  }
  const cj_report *get() const noexcept {
    return report_.get();
  }

private:
  detail::owner<cj_report, cj_report_destroy> report_;
};

// ---- configuration ----

class config {
public:
  config() : config_(detail::made<handle>(cj_config_new())) {
  }
  config(std::initializer_list<std::pair<const char *, const char *>> properties) : config() {
    for (const auto &property : properties)
      set(property.first, property.second);
  }
  config &set(const char *name, const char *value) {
    check(cj_config_set(get(), name, value));
    return *this;
  }
  config &set(const std::string &name, const std::string &value) {
    return set(name.c_str(), value.c_str());
  }
  std::optional<std::string> operator[](const char *name) const {
    const char *value = cj_config_get(get(), name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  }
  config copy() const {
    return config(cj_config_copy(get()));
  }
  static std::string documentation() {
    return detail::taken(cj_config_documentation());
  }
  cj_config *get() const noexcept {
    return config_.get();
  }

private:
  using handle = detail::owner<cj_config, cj_config_destroy>;
  explicit config(cj_config *owned) : config_(detail::made<handle>(owned)) {
  }
  handle config_;
};

// ---- topology ----

// What a node may be given; see cj_node.
struct node {
  const char *name = nullptr;
  const cj_serde *value_serde = nullptr;
  const cj_serde *key_serde = nullptr;
};

namespace detail {

// What the library calls for a callable F: R (cj_ctx *, P *...) becomes F(cj_ctx &, P &...).
template <class F, class R, class... P> R call(cj_ctx *ctx, P *...arguments) noexcept {
  return (*static_cast<const F *>(cj_ctx_user(ctx)))(*ctx, *arguments...);
}
// A left join's row may be missing, so it stays a pointer.
template <class F>
cj_verdict call_left(cj_ctx *ctx, const cj_record *record, const cj_row *row,
                     cj_buf *value) noexcept {
  return (*static_cast<const F *>(cj_ctx_user(ctx)))(*ctx, *record, row, *value);
}

template <class F, class R, class... Arguments> constexpr void require() {
  static_assert(std::is_invocable_r_v<R, const F &, Arguments...>,
                "the callable does not take this operator's arguments, or is not const");
  static_assert(std::is_nothrow_invocable_r_v<R, const F &, Arguments...>,
                "the callable must be noexcept: an exception cannot pass through the library");
}

template <class F> cj_node node_of(F &&fn, const node &options) {
  using stored = std::decay_t<F>;
  cj_node made{};
  made.name = options.name;
  made.value_serde = options.value_serde;
  made.key_serde = options.key_serde;
  made.user = new stored(std::forward<F>(fn));
  made.destroy = [](void *user) { delete static_cast<stored *>(user); };
  return made;
}

} // namespace detail

// Handles of the topology's own: copied freely, valid until it is built or destroyed. After a
// mistake they are NULL, and topology::build reports it: a chain needs no check in its middle.
class table {
public:
  explicit table(cj_table *borrowed) noexcept : table_(borrowed) {
  }
  cj_table *get() const noexcept {
    return table_;
  }

private:
  cj_table *table_;
};

class stream {
public:
  explicit stream(cj_stream *borrowed = nullptr) noexcept : stream_(borrowed) {
  }

  // cj_verdict (cj_ctx &, const cj_record &)
  template <class F> stream filter(F &&fn, const node &options = {}) const {
    return add(cj_stream_filter, std::forward<F>(fn), options);
  }
  // cj_verdict (cj_ctx &, const cj_record &, cj_buf &value)
  template <class F> stream map_values(F &&fn, const node &options = {}) const {
    return add(cj_stream_map_values, std::forward<F>(fn), options);
  }
  // cj_verdict (cj_ctx &, const cj_record &, cj_buf &key, cj_buf &value)
  template <class F> stream map(F &&fn, const node &options = {}) const {
    return add(cj_stream_map, std::forward<F>(fn), options);
  }
  // cj_verdict (cj_ctx &, const cj_record &, cj_emitter &)
  template <class F> stream flat_map(F &&fn, const node &options = {}) const {
    return add(cj_stream_flat_map, std::forward<F>(fn), options);
  }
  // cj_verdict (cj_ctx &, const cj_record &, cj_buf &key)
  template <class F> stream select_key(F &&fn, const node &options = {}) const {
    return add(cj_stream_select_key, std::forward<F>(fn), options);
  }
  // void (cj_ctx &, const cj_record &)
  template <class F> stream peek(F &&fn, const node &options = {}) const {
    return add(cj_stream_peek, std::forward<F>(fn), options);
  }
  // int (cj_ctx &, const cj_record &): the branch, 0 … n-1, or -1.
  template <class F> std::vector<stream> branch(size_t n, F &&fn, const node &options = {}) const {
    using stored = std::decay_t<F>;
    detail::require<stored, int, cj_ctx &, const cj_record &>();
    std::vector<cj_stream *> handles(n);
    cj_node made = detail::node_of(std::forward<F>(fn), options);
    size_t count = cj_stream_branch(stream_, detail::call<stored, int, const cj_record>,
                                    handles.data(), n, &made);
    std::vector<stream> branches;
    for (size_t i = 0; i < n; i++)
      branches.emplace_back(count ? handles[i] : nullptr);
    return branches;
  }
  stream merge(stream other, const char *name = nullptr) const {
    cj_node made{};
    made.name = name;
    return stream(cj_stream_merge(stream_, other.stream_, &made));
  }
  stream assume_copartitioned(const char *why) const {
    return stream(cj_stream_assume_copartitioned(stream_, why));
  }
  // cj_verdict (cj_ctx &, const cj_record &, const cj_row &, cj_buf &value)
  template <class F> stream join(table with, F &&fn, const node &options = {}) const {
    using stored = std::decay_t<F>;
    detail::require<stored, cj_verdict, cj_ctx &, const cj_record &, const cj_row &, cj_buf &>();
    cj_node made = detail::node_of(std::forward<F>(fn), options);
    return stream(cj_stream_join(
        stream_, with.get(),
        detail::call<stored, cj_verdict, const cj_record, const cj_row, cj_buf>, &made));
  }
  // cj_verdict (cj_ctx &, const cj_record &, const cj_row *, cj_buf &value); NULL: no row
  template <class F> stream left_join(table with, F &&fn, const node &options = {}) const {
    using stored = std::decay_t<F>;
    detail::require<stored, cj_verdict, cj_ctx &, const cj_record &, const cj_row *, cj_buf &>();
    cj_node made = detail::node_of(std::forward<F>(fn), options);
    return stream(cj_stream_left_join(stream_, with.get(), detail::call_left<stored>, &made));
  }
  void to(const char *topic, const cj_sink_options &options = {}) const noexcept {
    cj_stream_to(stream_, topic, &options);
  }
  cj_stream *get() const noexcept {
    return stream_;
  }

private:
  template <class F, class R, class... P>
  stream add(cj_stream *(*function)(cj_stream *, R (*)(cj_ctx *, P *...), const cj_node *), F &&fn,
             const node &options) const {
    using stored = std::decay_t<F>;
    detail::require<stored, R, cj_ctx &, P &...>();
    cj_node made = detail::node_of(std::forward<F>(fn), options);
    return stream(function(stream_, detail::call<stored, R, P...>, &made));
  }

  cj_stream *stream_;
};

class plan {
public:
  explicit plan(cj_plan *owned) noexcept : plan_(owned) {
  }
  std::string text(cj_format format = CJ_FORMAT_TEXT) const {
    return detail::taken(cj_plan_text(get(), format));
  }
  cj_plan *get() const noexcept {
    return plan_.get();
  }
  cj_plan *release() noexcept {
    return plan_.release();
  }

private:
  detail::owner<cj_plan, cj_plan_destroy> plan_;
};

class topology {
public:
  topology() : topology_(detail::made<handle>(cj_topology_new())) {
  }
  cojoin::stream stream(const char *topic, const cj_source_options &options = {}) noexcept {
    return cojoin::stream(cj_topology_stream(get(), topic, &options));
  }
  cojoin::table table(const char *topic, const cj_source_options &options = {}) noexcept {
    return cojoin::table(cj_topology_table(get(), topic, &options));
  }
  // std::move(topology).build(): its handles end here.
  plan build() && {
    cj_plan *made = nullptr;
    check(cj_topology_build(get(), &made));
    topology_.release(); // consumed
    return plan(made);
  }
  cj_topology *get() const noexcept {
    return topology_.get();
  }

private:
  using handle = detail::owner<cj_topology, cj_topology_destroy>;
  handle topology_;
};

// ---- application ----

// What an application tells. Derive, override what is of interest; called from the library's
// threads, one at a time. Outlives the app.
class listener {
public:
  virtual ~listener() = default;
  virtual void on_log(cj_log_level, const char *) noexcept {
  }
  virtual void on_state(cj_app_state, cj_app_state) noexcept {
  }
  virtual void on_rebalance(const cj_rebalance &) noexcept {
  }
  virtual void on_restore(const cj_restore &) noexcept {
  }
  virtual void on_report(const cj_report *) noexcept {
  }
};

class app {
public:
  app(plan from, const config &with) : app(std::move(from), with, cj_app_options{}) {
  }
  app(plan from, const config &with, listener &to) : app(std::move(from), with, options_of(to)) {
  }

  cojoin::report check() {
    cj_report *made = nullptr;
    cojoin::check(cj_app_check(get(), &made));
    return cojoin::report(made);
  }
  void start() {
    cojoin::check(cj_app_start(get()));
  }
  // Safe in a signal handler.
  void stop() noexcept {
    cj_app_stop(get());
  }
  // Until it has stopped; throws what stopped it, unless that was stop().
  void wait() {
    cojoin::check(cj_app_wait(get(), -1));
  }
  // False: it still runs.
  bool wait_for(int64_t timeout_ms) {
    cj_error *ended = cj_app_wait(get(), timeout_ms);
    if (cj_error_code(ended) == CJ_ERR_TIMEOUT && cj_app_get_state(get()) != CJ_APP_FAILED) {
      cj_error_destroy(ended);
      return false;
    }
    cojoin::check(ended);
    return true;
  }
  cj_app_state state() const noexcept {
    return cj_app_get_state(get());
  }
  cj_read read(const char *table, cj_bytes key, buffer &copy) {
    return cj_app_get(get(), table, key, copy.get());
  }
  int64_t metric(const char *name, const char *reason = nullptr) {
    return cj_app_metric(get(), name, reason);
  }
  cj_app *get() const noexcept {
    return app_.get();
  }

private:
  app(plan from, const config &with, const cj_app_options &options) {
    cj_app *made = nullptr;
    cojoin::check(cj_app_new(from.get(), with.get(), &options, &made));
    from.release(); // consumed
    app_.reset(made);
  }
  static listener &heard(void *user) noexcept {
    return *static_cast<listener *>(user);
  }
  static cj_app_options options_of(listener &to) noexcept {
    cj_app_options options{};
    options.user = &to;
    options.on_log = [](void *user, cj_log_level level, const char *line) {
      heard(user).on_log(level, line);
    };
    options.on_state = [](void *user, cj_app_state before, cj_app_state after) {
      heard(user).on_state(before, after);
    };
    options.on_rebalance = [](void *user, const cj_rebalance *event) {
      heard(user).on_rebalance(*event);
    };
    options.on_restore = [](void *user, const cj_restore *progress) {
      heard(user).on_restore(*progress);
    };
    options.on_report = [](void *user, const cj_report *report) { heard(user).on_report(report); };
    return options;
  }

  detail::owner<cj_app, cj_app_destroy> app_;
};

} // namespace cojoin

#endif
