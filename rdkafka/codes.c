/* SPDX-License-Identifier: BSD-2-Clause */
/* librdkafka's error codes as the runtime tells them apart. */
#include "rdkafka/io_internal.h"

static cj_io_code client_code(rd_kafka_resp_err_t err) {
  switch (err) {
  case RD_KAFKA_RESP_ERR__TIMED_OUT:
  case RD_KAFKA_RESP_ERR__MSG_TIMED_OUT:
  case RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE:
    return CJ_IO_TIMED_OUT;
  case RD_KAFKA_RESP_ERR__TRANSPORT:
  case RD_KAFKA_RESP_ERR__RESOLVE:
  case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN:
  case RD_KAFKA_RESP_ERR__WAIT_COORD:
  case RD_KAFKA_RESP_ERR__WAIT_CACHE:
  case RD_KAFKA_RESP_ERR__NODE_UPDATE:
  case RD_KAFKA_RESP_ERR__IN_PROGRESS:
  case RD_KAFKA_RESP_ERR__PREV_IN_PROGRESS:
  case RD_KAFKA_RESP_ERR__RETRY:
  case RD_KAFKA_RESP_ERR__PARTIAL:
  case RD_KAFKA_RESP_ERR__NO_OFFSET:
    return CJ_IO_RETRIABLE;
  case RD_KAFKA_RESP_ERR__ASSIGNMENT_LOST:
    return CJ_IO_UNKNOWN_MEMBER;
  case RD_KAFKA_RESP_ERR__FENCED:
    return CJ_IO_FENCED;
  case RD_KAFKA_RESP_ERR__STATE:
    return CJ_IO_ABORTABLE;
  case RD_KAFKA_RESP_ERR__MAX_POLL_EXCEEDED:
    return CJ_IO_MAX_POLL;
  case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET: /* auto.offset.reset=error is how we are told */
    return CJ_IO_OUT_OF_RANGE;
  case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
  case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
    return CJ_IO_UNKNOWN_TOPIC;
  case RD_KAFKA_RESP_ERR__AUTHENTICATION:
  case RD_KAFKA_RESP_ERR__SSL: /* a handshake that failed: as final as a wrong password */
    return CJ_IO_AUTH;
  case RD_KAFKA_RESP_ERR__QUEUE_FULL:
    return CJ_IO_QUEUE_FULL;
  case RD_KAFKA_RESP_ERR__PURGE_QUEUE:
  case RD_KAFKA_RESP_ERR__PURGE_INFLIGHT:
    return CJ_IO_PURGED;
  case RD_KAFKA_RESP_ERR__NOT_IMPLEMENTED:
  case RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE:
    return CJ_IO_UNSUPPORTED;
  default:
    return CJ_IO_OTHER;
  }
}

static cj_io_code broker_code(rd_kafka_resp_err_t err) {
  switch (err) {
  case RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT:
  case RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND:
    return CJ_IO_TIMED_OUT;
  case RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE:
  case RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION:
  case RD_KAFKA_RESP_ERR_BROKER_NOT_AVAILABLE:
  case RD_KAFKA_RESP_ERR_REPLICA_NOT_AVAILABLE:
  case RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION:
  case RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS:
  case RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE:
  case RD_KAFKA_RESP_ERR_NOT_COORDINATOR:
  case RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS:
  case RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR:
  case RD_KAFKA_RESP_ERR_OFFSET_NOT_AVAILABLE:
  case RD_KAFKA_RESP_ERR_FENCED_LEADER_EPOCH:
  case RD_KAFKA_RESP_ERR_UNKNOWN_LEADER_EPOCH:
  case RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT:
  case RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED:
    return CJ_IO_RETRIABLE;
  case RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS:
    return CJ_IO_REBALANCE;
  case RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION:
    return CJ_IO_ILLEGAL_GENERATION;
  case RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID:
    return CJ_IO_UNKNOWN_MEMBER;
  case RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID:
  case RD_KAFKA_RESP_ERR_PRODUCER_FENCED:
  case RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH:
  case RD_KAFKA_RESP_ERR_TRANSACTION_COORDINATOR_FENCED:
    return CJ_IO_FENCED;
  case RD_KAFKA_RESP_ERR_INCONSISTENT_GROUP_PROTOCOL:
    return CJ_IO_INCONSISTENT_GROUP;
  case RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE:
    return CJ_IO_OUT_OF_RANGE;
  case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
  case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION:
    return CJ_IO_UNKNOWN_TOPIC;
  case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
  case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
  case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
  case RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
  case RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED:
  case RD_KAFKA_RESP_ERR_UNSUPPORTED_SASL_MECHANISM:
  case RD_KAFKA_RESP_ERR_ILLEGAL_SASL_STATE:
  case RD_KAFKA_RESP_ERR_SECURITY_DISABLED:
    return CJ_IO_AUTH;
  case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
  case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
    return CJ_IO_TOO_LARGE;
  case RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION:
  case RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT:
    return CJ_IO_UNSUPPORTED;
  default:
    return CJ_IO_OTHER;
  }
}

cj_io_code cj_rd_code(rd_kafka_resp_err_t err) {
  if (err == RD_KAFKA_RESP_ERR_NO_ERROR) return CJ_IO_OK;
  return err < RD_KAFKA_RESP_ERR__END ? client_code(err) : broker_code(err);
}

static cj_code error_code(cj_io_code code) {
  switch (code) {
  case CJ_IO_TIMED_OUT:
    return CJ_ERR_TIMEOUT;
  case CJ_IO_RETRIABLE:
    return CJ_ERR_BROKER;
  case CJ_IO_FENCED:
    return CJ_ERR_FENCED;
  case CJ_IO_AUTH:
    return CJ_ERR_AUTH;
  case CJ_IO_UNKNOWN_TOPIC:
    return CJ_ERR_TOPIC_MISSING;
  case CJ_IO_UNSUPPORTED:
    return CJ_ERR_UNSUPPORTED;
  default:
    return CJ_ERR_KAFKA;
  }
}

cj_error *cj_rd_error(rd_kafka_resp_err_t err, const char *subject, const char *what) {
  return cj_error_new(error_code(cj_rd_code(err)), subject, "%s: librdkafka says: %s", what,
                      rd_kafka_err2str(err));
}

const char *cj_io_code_name(cj_io_code code) {
  static const char *const names[] = {
      [CJ_IO_OK] = "ok",
      [CJ_IO_TIMED_OUT] = "timed out",
      [CJ_IO_RETRIABLE] = "broker, leader or coordinator not available",
      [CJ_IO_REBALANCE] = "the group is rebalancing",
      [CJ_IO_ILLEGAL_GENERATION] = "the member's generation is over",
      [CJ_IO_UNKNOWN_MEMBER] = "the group does not know the member any more",
      [CJ_IO_FENCED] = "fenced by another member or producer of the same identity",
      [CJ_IO_MAX_POLL] = "max.poll.interval.ms exceeded",
      [CJ_IO_INCONSISTENT_GROUP] = "the group's members use another protocol or assignor",
      [CJ_IO_OUT_OF_RANGE] = "the position is not in the log",
      [CJ_IO_UNKNOWN_TOPIC] = "the topic or partition does not exist",
      [CJ_IO_AUTH] = "authentication or authorization failed",
      [CJ_IO_TOO_LARGE] = "the record is too large",
      [CJ_IO_QUEUE_FULL] = "the producer's queue is full",
      [CJ_IO_UNSUPPORTED] = "not supported by this librdkafka or broker",
      [CJ_IO_ABORTABLE] = "the transaction must be aborted",
      [CJ_IO_PURGED] = "dropped with its transaction",
      [CJ_IO_OTHER] = "another error",
  };
  return (size_t)code < sizeof names / sizeof *names ? names[code] : "unknown";
}

const char *cj_rdkafka_version(void) {
  return rd_kafka_version_str();
}
