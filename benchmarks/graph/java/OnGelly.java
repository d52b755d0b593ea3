package bench;

import java.io.BufferedOutputStream;
import java.io.DataOutputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.java.DataSet;
import org.apache.flink.api.java.ExecutionEnvironment;
import org.apache.flink.api.java.io.LocalCollectionOutputFormat;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.graph.Edge;
import org.apache.flink.graph.Graph;
import org.apache.flink.graph.asm.simple.undirected.Simplify;
import org.apache.flink.graph.library.ConnectedComponents;
import org.apache.flink.graph.library.SingleSourceShortestPaths;
import org.apache.flink.graph.library.clustering.undirected.TriangleListing;
import org.apache.flink.graph.library.linkanalysis.PageRank;
import org.apache.flink.types.LongValue;
import org.apache.flink.types.NullValue;
import org.apache.flink.util.SplittableIterator;

/** Flink's Gelly: PATH PARALLELISM ITERATIONS FOLDER ALGORITHM...; prints the seconds of each job. */
public final class OnGelly {
    private static final int MOST_SUPERSTEPS = 1000;

    public static void main(String[] args) throws Exception {
        Configuration conf = new Configuration();
        conf.setString("taskmanager.memory.managed.size", "2g");
        conf.setString("taskmanager.memory.network.max", "256m");
        ExecutionEnvironment env = ExecutionEnvironment.createLocalEnvironment(conf);
        env.setParallelism(Integer.parseInt(args[1]));
        env.getConfig().enableObjectReuse();
        int iterations = Integer.parseInt(args[2]);
        for (int place = 4; place < args.length; place++) {
            run(env, args[place], args[0] + ".small.edges", iterations);
            System.in.read(); // nothing else runs from here on
            long began = System.nanoTime();
            List<Tuple2<Long, Double>> found = run(env, args[place], args[0] + ".edges", iterations);
            double seconds = (System.nanoTime() - began) / 1e9;
            write(args[3] + "/" + args[place], found);
            System.out.println("{\"algorithm\": \"" + args[place] + "\", \"seconds\": " + seconds + "}");
        }
        System.exit(0);
    }

    private static List<Tuple2<Long, Double>> run(ExecutionEnvironment env, String algorithm, String path, int iterations)
            throws Exception {
        if (algorithm.equals("triangles")) {
            return List.of(new Tuple2<>(0L, (double) triangles(env, path)));
        }
        DataSet<Edge<Long, Double>> edges =
                env.fromParallelCollection(new Longs(path), TypeInformation.of(new TypeHint<Edge<Long, Double>>() {}));
        DataSet<Tuple2<Long, Double>> values =
                switch (algorithm) {
                    case "pagerank" ->
                            Graph.fromDataSet(edges, env)
                                    .run(new PageRank<Long, NullValue, Double>(0.85, iterations))
                                    .map(each -> new Tuple2<>(each.getVertexId0(), each.getPageRankScore().getValue()))
                                    .returns(new TypeHint<Tuple2<Long, Double>>() {});
                    case "components" ->
                            Graph.fromDataSet(edges, new SameId(), env)
                                    .run(new ConnectedComponents<Long, Long, Double>(MOST_SUPERSTEPS))
                                    .map(each -> new Tuple2<>(each.f0, (double) each.f1))
                                    .returns(new TypeHint<Tuple2<Long, Double>>() {});
                    default ->
                            Graph.fromDataSet(edges, env)
                                    .run(new SingleSourceShortestPaths<Long, NullValue>(0L, MOST_SUPERSTEPS))
                                    .map(each -> new Tuple2<>(each.f0, finite(each.f1)))
                                    .returns(new TypeHint<Tuple2<Long, Double>>() {});
                };
        List<Tuple2<Long, Double>> found = new ArrayList<>();
        values.output(new LocalCollectionOutputFormat<>(found)); // the cluster is in this process
        env.execute();
        return found;
    }

    private static long triangles(ExecutionEnvironment env, String path) throws Exception {
        DataSet<Edge<LongValue, Double>> edges =
                env.fromParallelCollection(
                        new LongValues(path), TypeInformation.of(new TypeHint<Edge<LongValue, Double>>() {}));
        return Graph.fromDataSet(edges, env)
                .run(new Simplify<LongValue, NullValue, Double>(false))
                .run(new TriangleListing<LongValue, NullValue, Double>())
                .count();
    }

    /** A class: of a lambda, Gelly does not know which values it makes. */
    public static final class SameId implements MapFunction<Long, Long> {
        @Override
        public Long map(Long id) {
            return id;
        }
    }

    private static double finite(double distance) {
        return distance == Double.MAX_VALUE ? Double.POSITIVE_INFINITY : distance;
    }

    private static void write(String path, List<Tuple2<Long, Double>> found) throws IOException {
        try (DataOutputStream out = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(path)))) {
            out.writeLong(found.size());
            for (Tuple2<Long, Double> pair : found) {
                out.writeLong(pair.f0);
            }
            for (Tuple2<Long, Double> pair : found) {
                out.writeDouble(pair.f1);
            }
        }
    }

    /** Edges of a file: source, target and weight, eight bytes each, the highest first. */
    private abstract static class Edges<T> extends SplittableIterator<T> implements Serializable {
        private static final int BYTES = 24;
        private static final int BLOCK = BYTES << 14;
        private final String path;
        private long next;
        private final long end;
        private transient ByteBuffer block;

        Edges(String path, long next, long end) {
            this.path = path;
            this.next = next;
            this.end = end;
        }

        abstract T edge(long source, long target, double weight);

        abstract Edges<T> part(String path, long next, long end);

        @Override
        public boolean hasNext() {
            return next < end || (block != null && block.hasRemaining());
        }

        @Override
        public T next() {
            if (block == null || !block.hasRemaining()) {
                if (next >= end) {
                    throw new NoSuchElementException();
                }
                block = ByteBuffer.allocate((int) Math.min(BLOCK, end - next));
                try (FileChannel file = FileChannel.open(Path.of(path))) {
                    while (block.hasRemaining()) {
                        file.read(block, next + block.position());
                    }
                } catch (IOException error) {
                    throw new UncheckedIOException(error);
                }
                next += block.limit();
                block.flip();
            }
            return edge(block.getLong(), block.getLong(), block.getDouble());
        }

        @Override
        @SuppressWarnings("unchecked")
        public Iterator<T>[] split(int count) {
            Iterator<T>[] parts = new Iterator[count];
            long edges = (end - next) / BYTES;
            for (int at = 0; at < count; at++) {
                parts[at] = part(path, next + edges * at / count * BYTES, next + edges * (at + 1) / count * BYTES);
            }
            return parts;
        }

        @Override
        public int getMaximumNumberOfSplits() {
            return Integer.MAX_VALUE;
        }
    }

    private static final class Longs extends Edges<Edge<Long, Double>> {
        Longs(String path) {
            this(path, 0, new java.io.File(path).length());
        }

        private Longs(String path, long next, long end) {
            super(path, next, end);
        }

        @Override
        Edge<Long, Double> edge(long source, long target, double weight) {
            return new Edge<>(source, target, weight);
        }

        @Override
        Edges<Edge<Long, Double>> part(String path, long next, long end) {
            return new Longs(path, next, end);
        }
    }

    private static final class LongValues extends Edges<Edge<LongValue, Double>> {
        LongValues(String path) {
            this(path, 0, new java.io.File(path).length());
        }

        private LongValues(String path, long next, long end) {
            super(path, next, end);
        }

        @Override
        Edge<LongValue, Double> edge(long source, long target, double weight) {
            return new Edge<>(new LongValue(source), new LongValue(target), weight);
        }

        @Override
        Edges<Edge<LongValue, Double>> part(String path, long next, long end) {
            return new LongValues(path, next, end);
        }
    }
}
