package bench;

import java.io.FileWriter;
import java.io.IOException;
import java.io.PrintWriter;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLongArray;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.Metric;
import org.apache.flink.metrics.MetricConfig;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.metrics.reporter.MetricReporter;
import org.apache.flink.metrics.reporter.MetricReporterFactory;
import org.apache.flink.metrics.reporter.Scheduled;

/** Writes, every interval, one JSON line with the operators' record counts and the histogram of {@link Latencies}. */
public final class Meter implements MetricReporter, Scheduled {
    /** What Flink's configuration names. */
    public static final class Factory implements MetricReporterFactory {
        @Override
        public MetricReporter createMetricReporter(Properties properties) {
            return new Meter();
        }
    }

    /** Counts per bucket of latency; the buckets are those of protocol.py. */
    static final AtomicLongArray LATENCIES = new AtomicLongArray(2048);

    private final Map<Metric, String> counters = new ConcurrentHashMap<>();
    private PrintWriter out;

    /** Puts a latency (microseconds) into the power of two and the next five bits, as HdrHistogram does. */
    static void latency(long micros) {
        int shift = micros < 64 ? 0 : 58 - Long.numberOfLeadingZeros(micros);
        LATENCIES.incrementAndGet(micros < 64 ? (int) Math.max(0, micros) : ((shift + 1) << 5) + (int) (micros >> shift));
    }

    @Override
    public void open(MetricConfig config) {
        try {
            out = new PrintWriter(new FileWriter(config.getString("path", "/dev/null")));
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public void close() {
        out.close();
    }

    @Override
    public void notifyOfAddedMetric(Metric metric, String name, MetricGroup group) {
        String operator = group.getAllVariables().get("<operator_name>");
        if (metric instanceof Counter && operator != null && name.matches("numRecords(In|Out)")) {
            counters.put(metric, operator.replace('"', '\'') + "." + name);
        }
    }

    @Override
    public void notifyOfRemovedMetric(Metric metric, String name, MetricGroup group) {}

    @Override
    public void report() {
        Map<String, Long> counts = new TreeMap<>();
        counters.forEach((metric, name) -> counts.merge(name, ((Counter) metric).getCount(), Long::sum));
        StringBuilder line = new StringBuilder("{\"t\": " + System.nanoTime() / 1e9 + ", \"counts\": {");
        String comma = "";
        for (Map.Entry<String, Long> entry : counts.entrySet()) {
            line.append(comma).append('"').append(entry.getKey()).append("\": ").append(entry.getValue());
            comma = ", ";
        }
        line.append("}, \"latency\": {");
        comma = "";
        for (int bucket = 0; bucket < LATENCIES.length(); bucket++) {
            if (LATENCIES.get(bucket) > 0) {
                line.append(comma).append('"').append(bucket).append("\": ").append(LATENCIES.get(bucket));
                comma = ", ";
            }
        }
        out.println(line.append("}}"));
        out.flush();
    }
}
