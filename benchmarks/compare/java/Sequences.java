package bench;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.JobExecutionResult;
import org.apache.flink.api.common.accumulators.LongCounter;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichFilterFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;

/**
 * The patterns of {@code benchmarks/cep.py} in a local cluster of one slot: prints the matches and the seconds.
 *
 * <p>usage: Sequences PATTERN KEYS WITHIN WARMUP COUNT; the first run, of WARMUP events, is not measured.
 */
public final class Sequences {
    private Sequences() {}

    public static void main(String[] args) throws Exception {
        long keys = Long.parseLong(args[1]);
        long within = Long.parseLong(args[2]);
        run(args[0], keys, within, Long.parseLong(args[3]));
        System.out.println(run(args[0], keys, within, Long.parseLong(args[4])));
        System.exit(0);
    }

    private static String run(String name, long keys, long within, long count) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(1);
        DataStream<Tuple3<Long, Long, Long>> events =
                env.addSource(Numbers.plain(count, 0), "numbers", Types.LONG)
                        .assignTimestampsAndWatermarks(
                                WatermarkStrategy.<Long>forMonotonousTimestamps()
                                        .withTimestampAssigner((number, old) -> number / 100))
                        .map(number -> event(number, keys))
                        .returns(Types.TUPLE(Types.LONG, Types.LONG, Types.LONG));
        CEP.pattern(events.keyBy(event -> event.f0, Types.LONG), pattern(name, within))
                .process(new Emit(), Types.TUPLE(Types.LONG, Types.LONG))
                .filter(new Counting())
                .sinkTo(new org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink<>());
        JobExecutionResult result = env.execute(name);
        long matches = result.<Long>getAccumulatorResult("matches");
        return "{\"matches\": " + matches + ", \"seconds\": " + result.getNetRuntime() / 1000.0 + "}";
    }

    private static Tuple3<Long, Long, Long> event(long number, long keys) {
        long mixed = number * 0x9E3779B97F4A7C15L;
        mixed = (mixed ^ (mixed >>> 32)) * 0xD6E8FEB86659FD93L & Long.MAX_VALUE;
        return Tuple3.of((mixed >> 33) % keys, (mixed >> 20) % 10, (mixed >> 10) % 1000);
    }

    private static Pattern<Tuple3<Long, Long, Long>, ?> pattern(String name, long within) {
        return switch (name) {
            case "strict" -> start(AfterMatchSkipStrategy.noSkip()).next("b").where(kind(1)).next("c").where(kind(2));
            case "followed" ->
                    start(AfterMatchSkipStrategy.noSkip())
                            .followedBy("b")
                            .where(SimpleCondition.of(event -> event.f1 == 1 && event.f2 >= 500))
                            .within(Duration.ofMillis(within));
            case "open" ->
                    start(AfterMatchSkipStrategy.noSkip())
                            .followedBy("b")
                            .where(kind(10))
                            .within(Duration.ofMillis(within));
            case "rising" ->
                    start(AfterMatchSkipStrategy.skipPastLastEvent())
                            .followedBy("b")
                            .where(new Rising())
                            .oneOrMore()
                            .followedBy("c")
                            .where(kind(2))
                            .within(Duration.ofMillis(within));
            default -> throw new IllegalArgumentException(name);
        };
    }

    private static Pattern<Tuple3<Long, Long, Long>, Tuple3<Long, Long, Long>> start(AfterMatchSkipStrategy skip) {
        return Pattern.<Tuple3<Long, Long, Long>>begin("a", skip).where(kind(0));
    }

    private static SimpleCondition<Tuple3<Long, Long, Long>> kind(long kind) {
        return SimpleCondition.of(event -> event.f1 == kind);
    }

    /** Above the event before. */
    private static final class Rising extends IterativeCondition<Tuple3<Long, Long, Long>> {
        @Override
        public boolean filter(Tuple3<Long, Long, Long> event, Context<Tuple3<Long, Long, Long>> context)
                throws Exception {
            if (event.f1 != 1) {
                return false;
            }
            long last = -1;
            for (Tuple3<Long, Long, Long> earlier : context.getEventsForPattern("b")) {
                last = earlier.f2;
            }
            return event.f2 > last;
        }
    }

    private static final class Emit
            extends PatternProcessFunction<Tuple3<Long, Long, Long>, Tuple2<Long, Long>> {
        @Override
        public void processMatch(
                Map<String, List<Tuple3<Long, Long, Long>>> match, Context context, Collector<Tuple2<Long, Long>> out) {
            List<Tuple3<Long, Long, Long>> second = match.get("b");
            out.collect(Tuple2.of(match.get("a").get(0).f0, second.get(second.size() - 1).f2));
        }
    }

    private static final class Counting extends RichFilterFunction<Tuple2<Long, Long>> {
        private final LongCounter matches = new LongCounter();

        @Override
        public void open(OpenContext context) {
            getRuntimeContext().addAccumulator("matches", matches);
        }

        @Override
        public boolean filter(Tuple2<Long, Long> result) {
            matches.add(1L);
            return true;
        }
    }
}
