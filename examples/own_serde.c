/* SPDX-License-Identifier: BSD-2-Clause */
/* A serde of one's own: a price is 12 bytes, cents as a big-endian int64 and the currency as three
 * letters with a zero. Callbacks get the decoded struct; bytes that do not fit are counted and
 * handled by the policy errors.deserialize. Runs on the test driver. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cojoin/cojoin.h>
#include <cojoin/testing.h>

typedef struct {
  int64_t cents;
  char currency[4]; /* NUL-terminated */
} price;

enum { PRICE_BYTES = 12 };

/* The object lives in the arena, which lives as long as the record. */
static const void *decode_price(void *user, cj_bytes in, cj_arena *arena, const char **why) {
  (void)user;
  if (in.len != PRICE_BYTES) {
    *why = "a price has 12 bytes";
    return NULL;
  }
  price *decoded = cj_arena_alloc(arena, sizeof *decoded);
  if (!decoded) {
    *why = "no memory";
    return NULL;
  }
  const unsigned char *bytes = in.data;
  cj_get_int64(cj_bytes_of(bytes, 8), &decoded->cents);
  memcpy(decoded->currency, bytes + 8, sizeof decoded->currency);
  if (decoded->currency[3]) {
    *why = "the currency is not three letters and a zero";
    return NULL;
  }
  return decoded;
}

static bool encode_price(void *user, const void *object, cj_buf *out, const char **why) {
  (void)user;
  const price *p = object;
  if (p->cents < 0) {
    *why = "a price is not negative";
    return false;
  }
  cj_put_int64(out, p->cents);
  cj_buf_append(out, p->currency, sizeof p->currency);
  return true;
}

static const cj_serde price_serde = {
    .name = "price",
    .decode = decode_price,
    .encode = encode_price,
};

static cj_verdict say_price(cj_ctx *ctx, const cj_record *question, const cj_row *row,
                            cj_buf *out) {
  (void)ctx;
  const price *p = row->object;
  cj_buf_printf(out, "%.*s costs %" PRId64 ".%02d %s", (int)question->key.len,
                (const char *)question->key.data, p->cents / 100, (int)(p->cents % 100),
                p->currency);
  return CJ_EMIT;
}

static void end_on(cj_error *error) {
  if (!error) return;
  fprintf(stderr, "%s\n", cj_error_text(error));
  exit(1);
}

static void put_price(cj_test *t, const char *key, const price *p, int64_t at) {
  cj_buf bytes = CJ_BUF_INIT;
  const char *why;
  if (!encode_price(NULL, p, &bytes, &why)) {
    fprintf(stderr, "%s\n", why);
    exit(1);
  }
  cj_test_pipe(t, "prices", cj_bytes_str(key), cj_buf_bytes(&bytes), at);
  cj_buf_free(&bytes);
}

int main(void) {
  cj_topology *topology = cj_topology_new();
  cj_table *prices =
      cj_topology_table(topology, "prices", &(cj_source_options){.value_serde = &price_serde});
  cj_stream *questions = cj_topology_stream(topology, "questions", NULL);
  cj_stream_to(cj_stream_join(questions, prices, say_price, NULL), "answers", NULL);
  cj_plan *plan;
  end_on(cj_topology_build(topology, &plan));

  /* What cannot be decoded is skipped and counted; the default is to stop with an error that names
   * topic, partition and offset. */
  cj_config *config = cj_config_new();
  if (!config) return 1;
  end_on(cj_config_set(config, "errors.deserialize", "skip"));
  cj_test *t = cj_test_new(plan, config);
  if (!t) return 1;
  cj_test_topic(t, "prices", 1);
  cj_test_topic(t, "questions", 1);
  end_on(cj_test_start_member(t, "one"));
  put_price(t, "tea", &(price){350, "EUR"}, 1);
  cj_test_pipe(t, "prices", cj_bytes_str("tea"), cj_bytes_str("cheap"), 2);
  cj_test_pipe(t, "questions", cj_bytes_str("tea"), cj_bytes_str("?"), 3);
  cj_test_settle(t);

  cj_record answer;
  for (size_t i = 0; cj_test_read(t, "answers", 0, i, &answer); i++)
    printf("%.*s\n", (int)answer.value.len, (const char *)answer.value.data);
  printf("skipped: %" PRId64 "\n", cj_test_metric(t, "dropped", "deserialize"));
  cj_test_destroy(t);
  cj_config_destroy(config);
  cj_plan_destroy(plan);
  return 0;
}
