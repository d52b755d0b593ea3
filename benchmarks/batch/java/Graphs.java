package bench;

import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.functions.FlatJoinFunction;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.api.common.functions.GroupReduceFunction;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.java.DataSet;
import org.apache.flink.api.java.ExecutionEnvironment;
import org.apache.flink.api.java.aggregation.Aggregations;
import org.apache.flink.api.java.functions.FunctionAnnotation.ForwardedFields;
import org.apache.flink.api.java.functions.FunctionAnnotation.ForwardedFieldsFirst;
import org.apache.flink.api.java.operators.DeltaIteration;
import org.apache.flink.api.java.operators.IterativeDataSet;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.fs.FileSystem.WriteMode;
import org.apache.flink.util.Collector;

/** Flink's own DataSet programs: PROGRAM EDGES(csv) VERTICES SUPERSTEPS PARALLELISM OUTPUT; prints the seconds of the job. */
public final class Graphs {
    public static void main(String[] args) throws Exception {
        Configuration conf = new Configuration();
        conf.setString("taskmanager.memory.managed.size", "512m");
        conf.setString("taskmanager.memory.network.max", "128m");
        int parallelism = Integer.parseInt(args[4]);
        ExecutionEnvironment env = ExecutionEnvironment.createLocalEnvironment(conf);
        env.setParallelism(parallelism);
        env.getConfig().enableObjectReuse();
        env.fromElements(1, 2, 3).count(); // loads the classes of a cluster
        long vertices = Long.parseLong(args[2]);
        int supersteps = Integer.parseInt(args[3]);
        DataSet<Tuple2<Long, Long>> edges = env.readCsvFile(args[1]).types(Long.class, Long.class);
        DataSet<?> result =
                switch (args[0]) {
                    case "pagerank" -> pageRank(env, edges, vertices, supersteps);
                    case "bulk" -> bulk(env, edges, vertices);
                    default -> delta(env, edges, vertices);
                };
        result.writeAsText(args[5], WriteMode.OVERWRITE);
        long began = System.nanoTime();
        env.execute();
        System.out.println((System.nanoTime() - began) / 1e9);
    }

    private static DataSet<Tuple2<Long, Double>> pageRank(
            ExecutionEnvironment env, DataSet<Tuple2<Long, Long>> edges, long count, int supersteps) {
        DataSet<Tuple2<Long, Double>> vertices = env.generateSequence(0, count - 1).map(new Start(count));
        DataSet<Tuple2<Long, long[]>> adjacency = edges.groupBy(0).reduceGroup(new Neighbours());
        IterativeDataSet<Tuple2<Long, Double>> iteration = vertices.iterate(supersteps);
        DataSet<Tuple2<Long, Double>> following =
                iteration
                        .leftOuterJoin(adjacency)
                        .where(0)
                        .equalTo(0)
                        .with(new Moved())
                        .groupBy(0)
                        .aggregate(Aggregations.SUM, 1)
                        .map(new Damped(count));
        return iteration.closeWith(following);
    }

    private static DataSet<Tuple2<Long, Long>> undirected(DataSet<Tuple2<Long, Long>> edges) {
        return edges.flatMap(new Both());
    }

    private static DataSet<Tuple2<Long, Long>> bulk(ExecutionEnvironment env, DataSet<Tuple2<Long, Long>> edges, long count) {
        DataSet<Tuple2<Long, Long>> labels = env.generateSequence(0, count - 1).map(new Label());
        IterativeDataSet<Tuple2<Long, Long>> iteration = labels.iterate(1000);
        DataSet<Tuple2<Long, Long>> offers =
                iteration.join(undirected(edges)).where(0).equalTo(0).projectSecond(1).projectFirst(1);
        DataSet<Tuple2<Long, Long>> following = iteration.union(offers).groupBy(0).aggregate(Aggregations.MIN, 1);
        DataSet<Tuple2<Long, Long>> changed = following.join(iteration).where(0).equalTo(0).with(new Lower());
        return iteration.closeWith(following, changed);
    }

    private static DataSet<Tuple2<Long, Long>> delta(ExecutionEnvironment env, DataSet<Tuple2<Long, Long>> edges, long count) {
        DataSet<Tuple2<Long, Long>> labels = env.generateSequence(0, count - 1).map(new Label());
        DeltaIteration<Tuple2<Long, Long>, Tuple2<Long, Long>> iteration = labels.iterateDelta(labels, 1000, 0);
        DataSet<Tuple2<Long, Long>> offers =
                iteration.getWorkset().join(undirected(edges)).where(0).equalTo(0).projectSecond(1).projectFirst(1);
        DataSet<Tuple2<Long, Long>> changes =
                offers.groupBy(0)
                        .aggregate(Aggregations.MIN, 1)
                        .join(iteration.getSolutionSet())
                        .where(0)
                        .equalTo(0)
                        .with(new Lower());
        return iteration.closeWith(changes, changes);
    }

    public static final class Start implements MapFunction<Long, Tuple2<Long, Double>> {
        private final double share;

        Start(long count) {
            share = 1.0 / count;
        }

        @Override
        public Tuple2<Long, Double> map(Long vertex) {
            return new Tuple2<>(vertex, share);
        }
    }

    @ForwardedFields("*->f0;*->f1")
    public static final class Label implements MapFunction<Long, Tuple2<Long, Long>> {
        @Override
        public Tuple2<Long, Long> map(Long vertex) {
            return new Tuple2<>(vertex, vertex);
        }
    }

    @ForwardedFields("f0")
    public static final class Neighbours implements GroupReduceFunction<Tuple2<Long, Long>, Tuple2<Long, long[]>> {
        @Override
        public void reduce(Iterable<Tuple2<Long, Long>> edges, Collector<Tuple2<Long, long[]>> out) {
            List<Long> targets = new ArrayList<>();
            long source = 0;
            for (Tuple2<Long, Long> edge : edges) {
                source = edge.f0;
                targets.add(edge.f1);
            }
            out.collect(new Tuple2<>(source, targets.stream().mapToLong(Long::longValue).toArray()));
        }
    }

    public static final class Moved
            implements FlatJoinFunction<Tuple2<Long, Double>, Tuple2<Long, long[]>, Tuple2<Long, Double>> {
        @Override
        public void join(Tuple2<Long, Double> rank, Tuple2<Long, long[]> links, Collector<Tuple2<Long, Double>> out) {
            out.collect(new Tuple2<>(rank.f0, 0.0));
            if (links != null) {
                double share = rank.f1 / links.f1.length;
                for (long target : links.f1) {
                    out.collect(new Tuple2<>(target, share));
                }
            }
        }
    }

    @ForwardedFields("f0")
    public static final class Damped implements MapFunction<Tuple2<Long, Double>, Tuple2<Long, Double>> {
        private final double lost;

        Damped(long count) {
            lost = 0.15 / count;
        }

        @Override
        public Tuple2<Long, Double> map(Tuple2<Long, Double> found) {
            return new Tuple2<>(found.f0, lost + 0.85 * found.f1);
        }
    }

    public static final class Both implements FlatMapFunction<Tuple2<Long, Long>, Tuple2<Long, Long>> {
        @Override
        public void flatMap(Tuple2<Long, Long> edge, Collector<Tuple2<Long, Long>> out) {
            out.collect(edge);
            out.collect(new Tuple2<>(edge.f1, edge.f0));
        }
    }

    @ForwardedFieldsFirst("*")
    public static final class Lower
            implements FlatJoinFunction<Tuple2<Long, Long>, Tuple2<Long, Long>, Tuple2<Long, Long>> {
        @Override
        public void join(Tuple2<Long, Long> offer, Tuple2<Long, Long> label, Collector<Tuple2<Long, Long>> out) {
            if (offer.f1 < label.f1) {
                out.collect(offer);
            }
        }
    }
}
