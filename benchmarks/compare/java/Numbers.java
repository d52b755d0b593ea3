package bench;

import java.io.Serializable;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.streaming.api.functions.source.legacy.RichParallelSourceFunction;

/**
 * Records made of the numbers 0, 1, 2, ...: subtask i of n makes i, i + n, i + 2n, and so on, {@code count} together.
 *
 * <p>With a rate (records/s, all subtasks together) a record is stamped with the time it was due, so that the time it
 * waited for a busy source counts; without one, with the time it was made. Stamps are microseconds since the epoch.
 */
public final class Numbers<T> extends RichParallelSourceFunction<T> {
    /** Makes a record. */
    public interface Maker<T> extends Serializable {
        T make(long number, long stamp);
    }

    private static final int AT_A_TIME = 64;

    private final Maker<T> maker;
    private final long count;
    private final double rate;
    private volatile boolean running = true;

    public Numbers(Maker<T> maker, long count, double rate) {
        this.maker = maker;
        this.count = count;
        this.rate = rate;
    }

    public static Numbers<Long> plain(long count, double rate) {
        return new Numbers<>((number, stamp) -> number, count, rate);
    }

    public static Numbers<Tuple2<Long, Long>> stamped(long count, double rate) {
        return new Numbers<>(Tuple2::of, count, rate);
    }

    public static Numbers<String> lines(long count, double rate) {
        return new Numbers<>((number, stamp) -> "line " + number + " of the text", count, rate);
    }

    public static long micros() {
        java.time.Instant now = java.time.Instant.now();
        return now.getEpochSecond() * 1_000_000 + now.getNano() / 1000;
    }

    @Override
    public void run(SourceContext<T> out) throws Exception {
        int step = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
        long number = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
        long start = micros();
        long made = 0;
        while (running && number < count) {
            long now = micros();
            long due = rate == 0 ? AT_A_TIME : (long) ((now - start) * rate / step / 1e6) - made;
            if (due <= 0) {
                Thread.sleep(1);
                continue;
            }
            synchronized (out.getCheckpointLock()) {
                for (long left = Math.min(due, AT_A_TIME); left > 0 && number < count; left--, made++, number += step) {
                    long stamp = rate == 0 ? now : start + (long) (made * 1e6 * step / rate);
                    out.collect(maker.make(number, stamp));
                }
            }
        }
    }

    @Override
    public void cancel() {
        running = false;
    }
}
