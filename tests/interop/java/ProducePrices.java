/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes a file of monthly prices (symbol,date,price) to a topic with the Java client as it comes:
 * string serializers, its own partitioner. In the order of the dates, as a feed would, each record
 * with its date at midnight UTC as its timestamp.
 *
 *   java -cp JARS:CLASSES ProducePrices BROKERS TOPIC FILE */
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDate;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

public final class ProducePrices {
  private record Price(String symbol, long timestamp, String price) {}

  private static List<Price> read(Path file) throws Exception {
    var format = DateTimeFormatter.ofPattern("MMM d yyyy", Locale.ENGLISH);
    var prices = new ArrayList<Price>();
    List<String> lines = Files.readAllLines(file);
    for (String line : lines.subList(1, lines.size())) {
      if (line.isBlank()) continue;
      String[] cells = line.strip().split(",");
      long midnight = LocalDate.parse(cells[1], format).atStartOfDay()
          .toInstant(ZoneOffset.UTC).toEpochMilli();
      prices.add(new Price(cells[0], midnight, cells[2]));
    }
    prices.sort(Comparator.comparingLong(Price::timestamp));
    return prices;
  }

  public static void main(String[] args) throws Exception {
    Map<String, Object> config = Map.of(
        ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, args[0],
        ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, StringSerializer.class,
        ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, StringSerializer.class);
    List<Price> prices = read(Path.of(args[2]));
    var sent = new ArrayList<Future<RecordMetadata>>();
    try (var producer = new KafkaProducer<String, String>(config)) {
      for (Price p : prices)
        sent.add(producer.send(
            new ProducerRecord<>(args[1], null, p.timestamp(), p.symbol(), p.price())));
    }
    for (var one : sent) one.get();
    System.out.println(sent.size());
  }
}
