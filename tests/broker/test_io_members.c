/* SPDX-License-Identifier: BSD-2-Clause */
/* Several members of one group on a real broker, in one thread: who owns what, nothing lost and
 * nothing done twice as they come and go. */
#include "broker/io_broker.h"

#define TOPICS     2
#define PARTITIONS 6

typedef struct {
  test_io t;
  bool open, owns[TOPICS][PARTITIONS];
  bool assigned, lost, stranded;
  int64_t position[PARTITIONS]; /* of topic 0 */
  bool reading[PARTITIONS];
  uint64_t asked, committing;
  int revokes, commits_refused;
} member;

static char topics[TOPICS][64];

static void make_topics(void) {
  for (int i = 0; i < TOPICS; i++) {
    test_unique(topics[i], sizeof topics[i], i ? "b" : "a");
    test_create_topic(topics[i], PARTITIONS, NULL);
  }
}

static void quick(test_io *t) {
  test_property(t, "session.timeout.ms", "6000");
  test_property(t, "heartbeat.interval.ms", "200");
}

static void join(member *m, const char *group, const char *client_id, cj_assignment assignment) {
  memset(m, 0, sizeof *m);
  test_init(&m->t, group);
  m->t.settings.assignment = assignment;
  quick(&m->t);
  test_open(&m->t, (const char *[]){topics[0], topics[1]}, TOPICS, client_id, false);
  test_ok(m->t.io->ops->subscribe(m->t.io));
  m->open = true;
}

static void mark(member *m, const cj_io_event *event, bool owned) {
  if (owned) memset(m->owns, 0, sizeof m->owns);
  for (size_t i = 0; i < event->count; i++)
    m->owns[event->list[i].topic][event->list[i].partition] = owned;
}

/* ---- who owns what ---- */

static void serve_ownership(member *m) {
  cj_io_event event;
  while (m->t.io->ops->poll(m->t.io, &event)) {
    if (event.kind != CJ_EV_ASSIGN && event.kind != CJ_EV_REVOKE) continue;
    assert_false(event.lost);
    mark(m, &event, event.kind == CJ_EV_ASSIGN);
    test_answer(&m->t);
  }
}

static bool settled(member *members, int count, int topic) {
  for (int p = 0; p < PARTITIONS; p++) {
    int owners = 0;
    for (int i = 0; i < count; i++)
      owners += members[i].open && members[i].owns[topic][p];
    if (owners != 1) return false;
  }
  int open = 0, busy = 0;
  for (int i = 0; i < count; i++) {
    bool any = false;
    for (int p = 0; p < PARTITIONS; p++)
      any = any || members[i].owns[topic][p];
    open += members[i].open;
    busy += members[i].open && any;
  }
  return busy == (open < PARTITIONS ? open : PARTITIONS);
}

static void settle(member *members, int count) {
  int64_t until = test_now() + PATIENCE_MS;
  do {
    if (test_now() > until) fail_msg("the group does not settle");
    for (int i = 0; i < count; i++)
      if (members[i].open) {
        serve_ownership(&members[i]);
        members[i].t.io->ops->wait(members[i].t.io, 5);
      }
  } while (!settled(members, count, 0) || !settled(members, count, 1));
}

static int misaligned(const member *members, int count) {
  int wrong = 0;
  for (int p = 0; p < PARTITIONS; p++)
    for (int i = 0; i < count; i++)
      if (members[i].open) wrong += members[i].owns[0][p] != members[i].owns[1][p];
  return wrong;
}

static void leave(member *m) {
  test_end(&m->t);
  memset(m->owns, 0, sizeof m->owns);
  m->open = false;
}

static void range_aligns_and_roundrobin_does_not(void **state) {
  (void)state;
  make_topics();
  for (int spread = 0; spread < 2; spread++) {
    member members[4];
    char group[64], name[16];
    test_unique(group, sizeof group, "align");
    for (int i = 0; i < 4; i++) {
      snprintf(name, sizeof name, "m%d", i);
      join(&members[i], group, name, spread ? CJ_ASSIGN_SPREAD : CJ_ASSIGN_RANGE);
    }
    settle(members, 4);
    /* What `spread` makes whole above this seam, by its anchor. */
    if (spread)
      assert_true(misaligned(members, 4) > 0);
    else
      assert_int_equal(misaligned(members, 4), 0);
    leave(&members[1]);
    settle(members, 4);
    if (!spread) assert_int_equal(misaligned(members, 4), 0);
    leave(&members[0]);
    leave(&members[2]);
    settle(members, 4);
    for (int i = 0; i < 4; i++)
      if (members[i].open) leave(&members[i]);
  }
}

/* ---- nothing lost, nothing twice ---- */

enum { EACH = 34000 }; /* 204,000 in all */
static unsigned char seen[PARTITIONS][EACH];
static long taken;

static void start_reading(member *m, const cj_io_event *event) {
  cj_io_offset list[PARTITIONS];
  size_t count = 0;
  assert_int_equal(event->code, CJ_IO_OK);
  for (size_t i = 0; i < event->offset_count; i++) {
    const cj_io_offset *from = &event->offsets[i];
    int64_t start = from->offset == CJ_OFFSET_NONE ? 0 : from->offset;
    list[count++] = (cj_io_offset){.tp = from->tp, .offset = start};
    m->position[from->tp.partition] = start;
    m->reading[from->tp.partition] = true;
  }
  test_ok(m->t.io->ops->assign(m->t.io, list, count));
}

static size_t positions(const member *m, cj_io_offset *list) {
  size_t count = 0;
  for (int p = 0; p < PARTITIONS; p++)
    if (m->reading[p]) list[count++] = (cj_io_offset){.tp = {0, p}, .offset = m->position[p]};
  return count;
}

static void on_member_event(member *m, const cj_io_event *event) {
  cj_io_offset list[PARTITIONS];
  size_t count = 0;
  switch (event->kind) {
  case CJ_EV_ASSIGN:
    mark(m, event, true);
    test_answer(&m->t);
    for (int p = 0; p < PARTITIONS; p++)
      if (m->owns[0][p]) list[count++] = (cj_io_offset){.tp = {0, p}};
    m->asked = count ? test_submit(&m->t, CJ_REQ_COMMITTED, list, count, 10000) : 0;
    break;
  case CJ_EV_REVOKE:
    m->revokes++;
    m->asked = 0;
    assert_false(event->lost);
    count = positions(m, list);
    m->committing = test_submit(&m->t, CJ_REQ_COMMIT, list, count, 10000);
    break;
  case CJ_EV_DONE:
    if (event->id == m->asked) start_reading(m, event);
    if (event->id == m->committing) {
      m->commits_refused += event->code != CJ_IO_OK;
      memset(m->reading, 0, sizeof m->reading);
      test_answer(&m->t);
    }
    break;
  default:
    break;
  }
}

static void read_some(member *m) {
  cj_fetched entries[10];
  for (int p = 0; p < PARTITIONS; p++) {
    if (!m->reading[p]) continue;
    size_t got = m->t.io->ops->fetch(m->t.io, (cj_tp){0, p}, entries, 10);
    for (size_t i = 0; i < got; i++) {
      if (entries[i].kind == CJ_FETCHED_EOF) continue;
      assert_int_equal(entries[i].kind, CJ_FETCHED_RECORD);
      assert_int_equal(entries[i].offset, m->position[p]);
      assert_int_equal(test_number(entries[i].value), m->position[p]);
      m->position[p]++;
      seen[p][entries[i].offset]++;
      taken++;
    }
    m->t.io->ops->release(m->t.io, entries, got);
  }
}

/* One turn of everyone; slow enough that the group changes in the middle of reading. */
static void turn(member *members, int count) {
  for (int i = 0; i < count; i++) {
    member *m = &members[i];
    if (!m->open) continue;
    cj_io_event event;
    while (m->t.io->ops->poll(m->t.io, &event))
      on_member_event(m, &event);
    read_some(m);
  }
  usleep(500);
}

static void leave_reading(member *m, member *members, int count) {
  cj_io_event event;
  bool closed = false;
  int64_t until = test_now() + PATIENCE_MS;
  m->t.io->ops->close(m->t.io);
  while (!closed) {
    if (test_now() > until) fail_msg("the io does not close");
    while (m->t.io->ops->poll(m->t.io, &event)) {
      if (event.kind == CJ_EV_CLOSED) closed = true;
      on_member_event(m, &event);
    }
    m->open = false;
    turn(members, count);
    m->open = !closed;
  }
  test_destroy(&m->t);
}

static void members_come_and_go_and_each_record_is_read_once(void **state) {
  (void)state;
  enum { MEMBERS = 4, ALL = PARTITIONS * EACH };
  make_topics();
  memset(seen, 0, sizeof seen);
  taken = 0;
  member members[MEMBERS] = {0};
  char group[64];
  test_unique(group, sizeof group, "once");
  test_io filler;
  test_init(&filler, group);
  test_open(&filler, (const char *[]){topics[0]}, 1, "filler", false);
  for (int p = 0; p < PARTITIONS; p++)
    test_fill(&filler, 0, p, 0, EACH);
  test_end(&filler);
  join(&members[0], group, "first", CJ_ASSIGN_RANGE);
  /* joins and leaves at these counts */
  static const struct {
    long at;
    int who;
    bool joins;
  } changes[] = {{10000, 1, true},  {40000, 2, true},   {70000, 1, false},
                 {100000, 3, true}, {130000, 0, false}, {160000, 1, true}};
  size_t next = 0;
  int64_t until = test_now() + 2 * PATIENCE_MS;
  while (taken < ALL) {
    if (test_now() > until) fail_msg("stuck at %ld", taken);
    turn(members, MEMBERS);
    if (next == sizeof changes / sizeof *changes || taken < changes[next].at) continue;
    if (changes[next].joins)
      join(&members[changes[next].who], group, "more", CJ_ASSIGN_RANGE);
    else
      leave_reading(&members[changes[next].who], members, MEMBERS);
    next++;
  }
  assert_int_equal(next, sizeof changes / sizeof *changes);
  for (int i = 0; i < 200; i++)
    turn(members, MEMBERS);
  for (int p = 0; p < PARTITIONS; p++)
    for (int i = 0; i < EACH; i++)
      if (seen[p][i] != 1) fail_msg("record %d of %d was read %d times", i, p, seen[p][i]);
  int revokes = 0;
  for (int i = 0; i < MEMBERS; i++) {
    revokes += members[i].revokes;
    assert_int_equal(members[i].commits_refused, 0);
    if (members[i].open) leave_reading(&members[i], members, MEMBERS);
  }
  assert_true(revokes > 0);
}

/* ---- the group as it is described ---- */

static void the_group_is_described(void **state) {
  (void)state;
  make_topics();
  member members[2];
  char group[64];
  cj_io_event event;
  test_unique(group, sizeof group, "group");
  test_io admin;
  test_init(&admin, group);
  test_open(&admin, (const char *[]){topics[0]}, 1, "admin", true);
  test_ask(&admin, CJ_REQ_GROUP, NULL, 0, &event);
  assert_string_equal(event.group_state, "Dead");
  assert_int_equal(event.member_count, 0);
  memset(members, 0, sizeof members);
  test_init(&members[0].t, group);
  quick(&members[0].t);
  test_property(&members[0].t, "group.instance.id", "one");
  test_open(&members[0].t, (const char *[]){topics[0], topics[1]}, TOPICS, "first", false);
  test_ok(members[0].t.io->ops->subscribe(members[0].t.io));
  members[0].open = true;
  join(&members[1], group, "second", CJ_ASSIGN_RANGE);
  settle(members, 2);
  test_ask(&admin, CJ_REQ_GROUP, NULL, 0, &event);
  assert_string_equal(event.group_state, "Stable");
  assert_string_equal(event.group_protocol, "range");
  assert_int_equal(event.member_count, 2);
  for (size_t i = 0; i < 2; i++) {
    const cj_io_member *m = &event.members[i];
    bool first = strcmp(m->client_id, "first") == 0;
    assert_true(first || strcmp(m->client_id, "second") == 0);
    assert_int_equal(m->topic_count, TOPICS);
    for (size_t n = 0; n < TOPICS; n++)
      assert_true(!strcmp(m->topics[n], topics[0]) || !strcmp(m->topics[n], topics[1]));
    if (first)
      assert_string_equal(m->instance_id, "one");
    else
      assert_null(m->instance_id);
    assert_true(strlen(m->member_id) > 0);
    assert_true(strlen(m->host) > 0);
  }
  leave(&members[0]);
  leave(&members[1]);
  test_end(&admin);
}

/* Case 41: an assignor that the group does not have is told, again and again, and not fatal. */
static void another_assignor_is_told(void **state) {
  (void)state;
  make_topics();
  member members[2];
  char group[64];
  cj_io_event event;
  test_unique(group, sizeof group, "mixed");
  join(&members[0], group, "range", CJ_ASSIGN_RANGE);
  settle(members, 1);
  join(&members[1], group, "spread", CJ_ASSIGN_SPREAD);
  do
    test_await(&members[1].t, CJ_EV_ERROR, &event);
  while (event.code != CJ_IO_INCONSISTENT_GROUP);
  assert_false(event.fatal);
  test_end(&members[1].t);
  test_end(&members[0].t);
}

/* ---- evicted ---- */

static void a_member_that_did_not_poll_loses_its_partitions(void **state) {
  (void)state;
  make_topics();
  test_io t;
  char group[64];
  cj_io_event event;
  test_unique(group, sizeof group, "evicted");
  test_init(&t, group);
  quick(&t);
  test_property(&t, "max.poll.interval.ms", "6000");
  test_open(&t, (const char *[]){topics[0]}, 1, "evicted", false);
  test_fill(&t, 0, 0, 0, 100);
  test_join(&t, &event);
  test_answer(&t);
  const cj_io_offset all = {.tp = {0, 0}};
  test_ok(t.io->ops->assign(t.io, &all, 1));
  usleep(7500000);
  /* The runtime may assign before it polls, as tasks become ready. */
  test_ok(t.io->ops->assign(t.io, &all, 1));
  bool told = false;
  for (;;) {
    assert_true(test_await_for(&t, CJ_EV_ERROR, &event, 1000) || told);
    if (event.kind == CJ_EV_REVOKE) break;
    if (event.kind != CJ_EV_ERROR) continue;
    assert_int_equal(event.code, CJ_IO_MAX_POLL);
    assert_false(event.fatal);
    told = true;
    test_await(&t, CJ_EV_REVOKE, &event);
    break;
  }
  assert_true(event.lost);
  test_ask_for(&t, CJ_REQ_COMMIT, &(cj_io_offset){.offset = 5}, 1, &event, 5000);
  assert_int_not_equal(event.code, CJ_IO_OK);
  test_answer(&t);
  test_await(&t, CJ_EV_ASSIGN, &event);
  assert_int_equal(event.count, PARTITIONS);
  test_answer(&t);
  test_ask(&t, CJ_REQ_COMMIT, &(cj_io_offset){.offset = 5}, 1, &event);
  test_end(&t);
}

/* The group took the partitions, and this member does not know it yet while it assigns. */
static void assigning_beside_a_revoke_that_waits(void **state) {
  (void)state;
  make_topics();
  member members[2];
  char group[64];
  test_unique(group, sizeof group, "beside");
  join(&members[0], group, "first", CJ_ASSIGN_RANGE);
  settle(members, 1);
  join(&members[1], group, "second", CJ_ASSIGN_RANGE);
  for (int i = 0; i < 20; i++) {
    serve_ownership(&members[1]);
    usleep(100000);
  }
  const cj_io_offset list[] = {{.tp = {0, 0}}, {.tp = {1, 0}}};
  test_ok(members[0].t.io->ops->assign(members[0].t.io, list, 2));
  settle(members, 2);
  assert_int_equal(misaligned(members, 2), 0);
  leave(&members[0]);
  settle(members, 2);
  leave(&members[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(range_aligns_and_roundrobin_does_not),
      cmocka_unit_test(members_come_and_go_and_each_record_is_read_once),
      cmocka_unit_test(the_group_is_described),
      cmocka_unit_test(another_assignor_is_told),
      cmocka_unit_test(a_member_that_did_not_poll_loses_its_partitions),
      cmocka_unit_test(assigning_beside_a_revoke_that_waits),
  };
  return test_main_on_broker(tests, sizeof tests / sizeof *tests, "test_io_members");
}
