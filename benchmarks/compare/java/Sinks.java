package bench;

import java.io.FileWriter;
import java.io.IOException;
import java.io.PrintWriter;
import java.util.UUID;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.api.java.tuple.Tuple;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.types.Row;

/** Where results go: nowhere, into the histogram of {@link Meter}, or, to be checked, into files of a folder. */
public final class Sinks {
    private Sinks() {}

    public static Sink<Object> discard() {
        return new DiscardingSink<>();
    }

    /** Takes the last field for the stamp (microseconds). */
    public static Sink<Object> latencies() {
        return new Latencies();
    }

    public static Sink<Object> files(String folder) {
        return new Files(folder);
    }

    private static final class Latencies implements Sink<Object>, SinkWriter<Object> {
        @Override
        public SinkWriter<Object> createWriter(WriterInitContext context) {
            return this;
        }

        @Override
        public void write(Object value, Context context) {
            Object stamp =
                    value instanceof Row
                            ? ((Row) value).getField(((Row) value).getArity() - 1)
                            : ((Tuple) value).getField(((Tuple) value).getArity() - 1);
            Meter.latency(Numbers.micros() - (Long) stamp);
        }

        @Override
        public void flush(boolean endOfInput) {}

        @Override
        public void close() {}
    }

    private record Files(String folder) implements Sink<Object> {
        @Override
        public SinkWriter<Object> createWriter(WriterInitContext context) throws IOException {
            PrintWriter out = new PrintWriter(new FileWriter(folder + "/" + UUID.randomUUID()));
            return new SinkWriter<>() {
                @Override
                public void write(Object value, Context context) {
                    out.println(value);
                }

                @Override
                public void flush(boolean endOfInput) {
                    out.flush();
                }

                @Override
                public void close() {
                    out.close();
                }
            };
        }
    }
}
