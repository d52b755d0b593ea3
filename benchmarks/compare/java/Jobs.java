package bench;

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.datastream.WindowedStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/**
 * The programs as a DataStream job in a local cluster.
 *
 * <p>usage: Jobs PROGRAM COUNT RATE KEYS PER_MS STAMPED SINK [KEY=VALUE ...]; SINK is {@code discard}, {@code latencies},
 * or a folder.
 */
public final class Jobs {
    private Jobs() {}

    private static final TypeInformation<Tuple2<Long, Long>> PAIR = Types.TUPLE(Types.LONG, Types.LONG);
    private static final TypeInformation<Tuple3<Long, Long, Long>> TRIPLE =
            Types.TUPLE(Types.LONG, Types.LONG, Types.LONG);

    public static void main(String[] args) throws Exception {
        long count = Long.parseLong(args[1]);
        double rate = Double.parseDouble(args[2]);
        long keys = Long.parseLong(args[3]);
        long perMs = Long.parseLong(args[4]);
        Configuration conf = new Configuration();
        for (int i = 7; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            conf.setString(pair[0], pair[1]);
        }
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(conf);
        boolean stamped = Boolean.parseBoolean(args[5]);
        DataStream<?> results =
                switch (args[0]) {
                    case "grep" ->
                            env.addSource(Numbers.lines(count, rate), "numbers", Types.STRING)
                                    .filter(line -> line.contains("999 "));
                    case "keyed" -> stamped ? stampedKeyed(env, count, rate, keys) : keyed(env, count, rate, keys);
                    case "windows", "windows-full" -> {
                        var windows =
                                stamped ? byClock(env, count, rate, keys) : byNumber(env, count, rate, keys, perMs);
                        boolean incremental = args[0].equals("windows");
                        yield incremental ? windows.aggregate(new Count(), new Emit()) : windows.process(new CountAll());
                    }
                    default -> throw new IllegalArgumentException(args[0]);
                };
        sinkTo(
                results,
                switch (args[6]) {
                    case "discard" -> Sinks.discard();
                    case "latencies" -> Sinks.latencies();
                    default -> Sinks.files(args[6]);
                });
        env.execute(args[0]);
    }

    @SuppressWarnings("unchecked")
    private static void sinkTo(DataStream<?> results, org.apache.flink.api.connector.sink2.Sink<Object> sink) {
        ((DataStream<Object>) results).sinkTo(sink);
    }

    private static DataStream<?> keyed(StreamExecutionEnvironment env, long count, double rate, long keys) {
        return env.addSource(Numbers.plain(count, rate), "numbers", Types.LONG)
                .map(number -> Tuple2.of(number % keys, 1L))
                .returns(PAIR)
                .keyBy(pair -> pair.f0, Types.LONG)
                .reduce((a, b) -> Tuple2.of(a.f0, a.f1 + b.f1));
    }

    private static DataStream<?> stampedKeyed(StreamExecutionEnvironment env, long count, double rate, long keys) {
        return env.addSource(Numbers.stamped(count, rate), "numbers", PAIR)
                .map(number -> Tuple3.of(number.f0 % keys, 1L, number.f1))
                .returns(TRIPLE)
                .keyBy(triple -> triple.f0, Types.LONG)
                .reduce((a, b) -> Tuple3.of(a.f0, a.f1 + b.f1, b.f2));
    }

    private static WindowedStream<Long, Long, TimeWindow> byNumber(
            StreamExecutionEnvironment env, long count, double rate, long keys, long perMs) {
        return windowed(
                env.addSource(Numbers.plain(count, rate), "numbers", Types.LONG)
                        .assignTimestampsAndWatermarks(
                                WatermarkStrategy.<Long>forMonotonousTimestamps()
                                        .withTimestampAssigner((number, old) -> number / perMs)),
                keys);
    }

    /** Event time is the time a record was made or due; what matters then is how late a window's result is. */
    private static WindowedStream<Long, Long, TimeWindow> byClock(
            StreamExecutionEnvironment env, long count, double rate, long keys) {
        SingleOutputStreamOperator<Tuple2<Long, Long>> stamped =
                env.addSource(Numbers.stamped(count, rate), "numbers", PAIR)
                        .assignTimestampsAndWatermarks(
                                WatermarkStrategy.<Tuple2<Long, Long>>forMonotonousTimestamps()
                                        .withTimestampAssigner((number, old) -> number.f1 / 1000));
        return windowed(stamped.map(number -> number.f0).returns(Types.LONG), keys);
    }

    private static WindowedStream<Long, Long, TimeWindow> windowed(DataStream<Long> numbers, long keys) {
        return numbers.keyBy(number -> number % keys, Types.LONG)
                .window(TumblingEventTimeWindows.of(java.time.Duration.ofSeconds(1)));
    }

    private static final class Count implements AggregateFunction<Long, Long, Long> {
        @Override
        public Long createAccumulator() {
            return 0L;
        }

        @Override
        public Long add(Long value, Long count) {
            return count + 1;
        }

        @Override
        public Long getResult(Long count) {
            return count;
        }

        @Override
        public Long merge(Long a, Long b) {
            return a + b;
        }
    }

    private static final class Emit extends ProcessWindowFunction<Long, Tuple3<Long, Long, Long>, Long, TimeWindow> {
        @Override
        public void process(Long key, Context context, Iterable<Long> counts, Collector<Tuple3<Long, Long, Long>> out) {
            out.collect(Tuple3.of(key, counts.iterator().next(), context.window().getEnd() * 1000));
        }
    }

    private static final class CountAll extends ProcessWindowFunction<Long, Tuple3<Long, Long, Long>, Long, TimeWindow> {
        @Override
        public void process(Long key, Context context, Iterable<Long> all, Collector<Tuple3<Long, Long, Long>> out) {
            long count = 0;
            for (Long ignored : all) {
                count++;
            }
            out.collect(Tuple3.of(key, count, context.window().getEnd() * 1000));
        }
    }
}
