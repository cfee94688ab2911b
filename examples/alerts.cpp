// SPDX-License-Identifier: BSD-2-Clause
// price_alerts.c in C++: handles free themselves, callbacks are noexcept lambdas, errors are
// exceptions.
//
//   alerts BROKERS [NAME=VALUE]...
#include <csignal>
#include <cstdlib>
#include <iostream>

#include <cojoin/cojoin.hpp>

namespace {

cojoin::plan make_plan() {
  cj_source_options text{};
  text.key_serde = text.value_serde = cj_serde_string();
  cojoin::topology topology;
  auto prices = topology.table("market-updates", text);
  topology.stream("notifications", text)
      .join(prices,
            [](cj_ctx &, const cj_record &notification, const cj_row &row, cj_buf &out) noexcept {
              auto threshold = static_cast<const char *>(notification.value_object);
              auto price = static_cast<const char *>(row.object);
              if (std::atof(price) < std::atof(threshold)) return CJ_DROP;
              cj_buf_printf(&out, "reached %s: now %s", threshold, price);
              return CJ_EMIT;
            },
            {"alert-when-reached"})
      .to("alerts");
  return std::move(topology).build();
}

class printer : public cojoin::listener {
  void on_log(cj_log_level, const char *line) noexcept override {
    std::cerr << line << '\n';
  }
};

cj_app *running; // for the handler only

} // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    std::cerr << "usage: " << argv[0] << " BROKERS [NAME=VALUE]...\n";
    return 1;
  }
  try {
    cojoin::config config{{"application.id", "price-alerts"}, {"bootstrap.servers", argv[1]}};
    for (int i = 2; i < argc; i++) {
      std::string property = argv[i];
      auto equals = property.find('=');
      config.set(property.substr(0, equals),
                 equals == std::string::npos ? "" : property.substr(equals + 1));
    }
    printer printer;
    cojoin::app app(make_plan(), config, printer);
    running = app.get();
    std::signal(SIGINT, [](int) { cj_app_stop(running); });
    std::signal(SIGTERM, [](int) { cj_app_stop(running); });
    app.start();
    app.wait();
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
  } catch (const cojoin::error &error) {
    std::cerr << error.what() << '\n';
    if (error.report()) std::cerr << cj_report_text(error.report());
    return error.report() ? 2 : 1;
  }
  return 0;
}
