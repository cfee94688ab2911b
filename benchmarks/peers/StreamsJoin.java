/* SPDX-License-Identifier: BSD-2-Clause */
/* The peer: the same join in Kafka Streams, with its default configuration but for what names the
 * application and its state directory (and what -X sets, for the tuned variant). It stops once all
 * outputs lie on the broker.
 *
 *   java -cp 'JARS/*:CLASSES' StreamsJoin BROKERS TABLE STREAM OUT inner|left RECORDS APP STATE-DIR
 *       [NAME=VALUE]... */
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.ValueJoiner;

public final class StreamsJoin {
  private static final long PROCESS_TIMEOUT_MINUTES = 30;

  /** Wall clock and CPU time of the whole process, in nanoseconds. */
  private record Moment(long wall, long cpu) {
    static Moment now() {
      var os = (com.sun.management.OperatingSystemMXBean)
          ManagementFactory.getOperatingSystemMXBean();
      return new Moment(System.nanoTime(), os.getProcessCpuTime());
    }
  }

  /** Counts on the one stream thread; the last record opens the gate. */
  private static final class Joiner implements ValueJoiner<byte[], byte[], byte[]> {
    private final long expected;
    private final CountDownLatch processed;
    private long seen;
    private volatile Moment first;

    Joiner(long expected, CountDownLatch processed) {
      this.expected = expected;
      this.processed = processed;
    }

    /** Half of the stream's value and as much of the row, as join.c does. */
    @Override
    public byte[] apply(byte[] event, byte[] row) {
      if (seen++ == 0) first = Moment.now();
      byte[] out = event.clone();
      if (row != null) {
        int half = out.length / 2;
        int copied = Math.min(out.length - half, row.length);
        System.arraycopy(row, 0, out, half, copied);
      }
      if (seen == expected) processed.countDown();
      return out;
    }
  }

  private static StreamsBuilder topology(String[] args, Joiner joiner) {
    var bytes = Serdes.ByteArray();
    var builder = new StreamsBuilder();
    KTable<byte[], byte[]> table = builder.table(args[1], Consumed.with(bytes, bytes));
    KStream<byte[], byte[]> stream = builder.stream(args[2], Consumed.with(bytes, bytes));
    var joined = Joined.with(bytes, bytes, bytes);
    var result = switch (args[4]) {
      case "inner" -> stream.join(table, joiner, joined);
      case "left" -> stream.leftJoin(table, joiner, joined);
      default -> throw new IllegalArgumentException("inner or left, not " + args[4]);
    };
    result.to(args[3], Produced.with(bytes, bytes));
    return builder;
  }

  private static long written(Admin admin, String topic, int partitions) throws Exception {
    Map<TopicPartition, OffsetSpec> ask = new HashMap<>();
    for (int p = 0; p < partitions; p++) ask.put(new TopicPartition(topic, p), OffsetSpec.latest());
    return admin.listOffsets(ask).all().get().values().stream()
        .mapToLong(ListOffsetsResultInfo::offset).sum();
  }

  /** When the last output had been acknowledged: the log holds it, as seen every 5 ms. */
  private static Moment awaitWritten(String brokers, String topic, long records) throws Exception {
    Map<String, Object> config = Map.of(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, brokers);
    try (Admin admin = Admin.create(config)) {
      var described = admin.describeTopics(java.util.List.of(topic)).allTopicNames().get();
      int partitions = described.get(topic).partitions().size();
      while (written(admin, topic, partitions) < records) Thread.sleep(5);
      return Moment.now();
    }
  }

  public static void main(String[] args) throws Exception {
    if (args.length < 8) {
      System.err.println("usage: StreamsJoin BROKERS TABLE STREAM OUT inner|left RECORDS APP STATE"
          + " [NAME=VALUE]...");
      System.exit(1);
    }
    long records = Long.parseLong(args[5]);
    var config = new Properties();
    config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
    config.put(StreamsConfig.APPLICATION_ID_CONFIG, args[6]);
    config.put(StreamsConfig.STATE_DIR_CONFIG, args[7]);
    for (int i = 8; i < args.length; i++) {
      String[] property = args[i].split("=", 2);
      config.put(property[0], property[1]);
    }

    var done = new CountDownLatch(1);
    var failure = new AtomicReference<Throwable>();
    var joiner = new Joiner(records, done);
    Moment last = null;
    try (var streams = new KafkaStreams(topology(args, joiner).build(), config)) {
      streams.setUncaughtExceptionHandler(problem -> {
        failure.set(problem);
        done.countDown();
        return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
      });
      streams.start();
      boolean finished = done.await(PROCESS_TIMEOUT_MINUTES, TimeUnit.MINUTES);
      if (failure.get() != null) throw new IllegalStateException(failure.get());
      if (!finished) throw new IllegalStateException("only " + joiner.seen + " of " + records);
      last = awaitWritten(args[0], args[3], records);
      streams.close(Duration.ofSeconds(30));
    }
    System.out.printf("{\"library\":\"%s\",\"records\":%d,\"wall_s\":%.6f,\"steady_cpu_s\":%.6f}%n",
        AppInfoParser.getVersion(), records, (last.wall() - joiner.first.wall()) / 1e9,
        (last.cpu() - joiner.first.cpu()) / 1e9);
  }
}
