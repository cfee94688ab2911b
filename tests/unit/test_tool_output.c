/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/output.h"

static void a_line_is_out_when_the_call_returns(void **state) {
  (void)state;
  int ends[2];
  char read_back[16];
  tool_output output;
  assert_int_equal(pipe(ends), 0);
  tool_output_init(&output, ends[1]);
  assert_int_equal(tool_output_write(&output, "one\n", 4), 0);
  assert_int_equal(read(ends[0], read_back, sizeof read_back), 4);
  assert_memory_equal(read_back, "one\n", 4);
  tool_output_finish(&output);
  close(ends[0]);
  close(ends[1]);
}

static void a_reader_that_went_is_an_error_that_stays(void **state) {
  (void)state;
  int ends[2];
  tool_output output;
  signal(SIGPIPE, SIG_IGN);
  assert_int_equal(pipe(ends), 0);
  tool_output_init(&output, ends[1]);
  close(ends[0]);
  assert_int_equal(tool_output_write(&output, "one\n", 4), EPIPE);
  assert_string_equal(tool_output_reason(EPIPE), "its reader has gone");
  /* Another descriptor would take it: a line after a hole must not be written all the same. */
  output.fd = open("/dev/null", O_WRONLY);
  assert_int_equal(tool_output_write(&output, "two\n", 4), EPIPE);
  close(output.fd);
  tool_output_finish(&output);
  close(ends[1]);
}

static void a_full_disk_is_an_error(void **state) {
  (void)state;
  tool_output output;
  tool_output_init(&output, open("/dev/full", O_WRONLY));
  assert_true(output.fd >= 0);
  assert_int_equal(tool_output_write(&output, "one\n", 4), ENOSPC);
  assert_string_equal(tool_output_reason(ENOSPC), strerror(ENOSPC));
  close(output.fd);
  tool_output_finish(&output);
}

#define BIG 300000 /* more than a pipe holds */

typedef struct {
  int fd;
  size_t len;
  bool right;
} reader;

static void *read_all(void *user) {
  reader *r = user;
  unsigned char buf[4096];
  ssize_t n;
  r->right = true;
  while ((n = read(r->fd, buf, sizeof buf)) > 0)
    for (ssize_t i = 0; i < n; i++, r->len++)
      if (buf[i] != (unsigned char)(r->len % 251)) r->right = false;
  return NULL;
}

/* The descriptor is shared with whoever started us, and may have been made non-blocking. */
static void a_slow_reader_is_waited_for(void **state) {
  (void)state;
  int ends[2];
  tool_output output;
  assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
  assert_int_equal(fcntl(ends[0], F_SETFL, 0), 0);
  unsigned char *data = malloc(BIG);
  assert_non_null(data);
  for (size_t i = 0; i < BIG; i++)
    data[i] = (unsigned char)(i % 251);
  reader r = {.fd = ends[0]};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, read_all, &r), 0);
  tool_output_init(&output, ends[1]);
  int error = tool_output_write(&output, data, BIG);
  close(ends[1]);
  pthread_join(thread, NULL);
  assert_int_equal(error, 0);
  assert_int_equal(r.len, BIG);
  assert_true(r.right);
  tool_output_finish(&output);
  close(ends[0]);
  free(data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_line_is_out_when_the_call_returns),
      cmocka_unit_test(a_reader_that_went_is_an_error_that_stays),
      cmocka_unit_test(a_full_disk_is_an_error),
      cmocka_unit_test(a_slow_reader_is_waited_for),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
