package bench;

import java.io.BufferedOutputStream;
import java.io.DataOutputStream;
import java.io.FileOutputStream;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.graphx.Edge;
import org.apache.spark.graphx.EdgeDirection;
import org.apache.spark.graphx.EdgeTriplet;
import org.apache.spark.graphx.Graph;
import org.apache.spark.graphx.Pregel;
import org.apache.spark.graphx.lib.ConnectedComponents;
import org.apache.spark.graphx.lib.PageRank;
import org.apache.spark.graphx.lib.TriangleCount;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.storage.StorageLevel;
import scala.Function1;
import scala.Function2;
import scala.Function3;
import scala.Tuple2;
import scala.reflect.ClassTag;

/** Spark's GraphX: PATH PARALLELISM ITERATIONS FOLDER ALGORITHM...; prints the seconds of each job. */
public final class OnGraphX {
    private static final ClassTag<Object> INT = cast(ClassTag.Int());
    private static final ClassTag<Object> DOUBLE = cast(ClassTag.Double());
    private static final Object INFINITE = Double.POSITIVE_INFINITY;

    interface Program extends Function3<Object, Object, Object, Object>, Serializable {}

    interface Send extends Function1<EdgeTriplet<Object, Object>, scala.collection.Iterator<Tuple2<Object, Object>>>, Serializable {}

    interface Pair extends Function2<Object, Object, Object>, Serializable {}

    public static void main(String[] args) throws Exception {
        SparkSession spark =
                SparkSession.builder()
                        .master("local[" + args[1] + "]")
                        .config("spark.ui.enabled", "false")
                        .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
                        .getOrCreate();
        spark.sparkContext().setLogLevel("ERROR");
        int iterations = Integer.parseInt(args[2]);
        for (int place = 4; place < args.length; place++) {
            run(args[place], read(spark, args[0] + ".small"), iterations);
            System.in.read(); // nothing else runs from here on
            long began = System.nanoTime();
            Graph<Object, Object> graph = read(spark, args[0]);
            List<Tuple2<Object, Object>> found = run(args[place], graph, iterations);
            double seconds = (System.nanoTime() - began) / 1e9;
            write(args[3] + "/" + args[place], found, args[place].equals("pagerank") ? found.size() : 1);
            System.out.println("{\"algorithm\": \"" + args[place] + "\", \"seconds\": " + seconds + "}");
            spark.sparkContext().getPersistentRDDs().values().foreach((Drop) rdd -> ((RDD<?>) rdd).unpersist(true));
        }
        spark.stop();
    }

    interface Drop extends Function1<RDD<?>, Object>, Serializable {}

    private static Graph<Object, Object> read(SparkSession spark, String path) {
        RDD<Edge<Object>> edges =
                spark.read()
                        .parquet(path)
                        .select("source", "target", "weight")
                        .javaRDD()
                        .map(row -> new Edge<Object>(row.getLong(0), row.getLong(1), row.getDouble(2)))
                        .rdd();
        StorageLevel level = StorageLevel.MEMORY_ONLY();
        return Graph.fromEdges(edges, (Object) 1, level, level, INT, DOUBLE);
    }

    private static List<Tuple2<Object, Object>> run(String algorithm, Graph<Object, Object> graph, int iterations) {
        return switch (algorithm) {
            case "pagerank" -> collect(PageRank.run(graph, iterations, 0.15, INT, DOUBLE));
            case "components" -> collect(ConnectedComponents.run(graph, INT, DOUBLE));
            case "sssp" -> collect(distances(graph));
            default -> List.of(new Tuple2<>(0L, triangles(graph)));
        };
    }

    private static Graph<Object, Object> distances(Graph<Object, Object> graph) {
        Pair start = (id, value) -> (long) id == 0L ? (Object) 0.0 : INFINITE;
        Program program = (id, value, message) -> Math.min((double) value, (double) message);
        Send send =
                triplet -> {
                    double offer = (double) triplet.srcAttr() + (double) triplet.attr();
                    return offer < (double) triplet.dstAttr()
                            ? scala.collection.Iterator.single(new Tuple2<>((Object) triplet.dstId(), (Object) offer))
                            : cast(scala.collection.Iterator.empty());
                };
        Pair merge = (one, other) -> Math.min((double) one, (double) other);
        Graph<Object, Object> begun = graph.mapVertices(start, DOUBLE, null);
        return Pregel.apply(
                begun, INFINITE, Integer.MAX_VALUE, EdgeDirection.Out(), program, send, merge, DOUBLE, DOUBLE, DOUBLE);
    }

    private static Object triangles(Graph<Object, Object> graph) {
        Graph<Object, Object> counted = cast(TriangleCount.run(graph, INT, DOUBLE));
        return counted.vertices().toJavaRDD().map(pair -> ((Number) pair._2()).longValue()).reduce(Long::sum) / 3;
    }

    private static List<Tuple2<Object, Object>> collect(Graph<Object, Object> graph) {
        return new ArrayList<>(graph.vertices().toJavaRDD().collect());
    }

    private static void write(String path, List<Tuple2<Object, Object>> found, double scale) throws Exception {
        try (DataOutputStream out = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(path)))) {
            out.writeLong(found.size());
            for (Tuple2<Object, Object> pair : found) {
                out.writeLong(((Number) pair._1()).longValue());
            }
            for (Tuple2<Object, Object> pair : found) {
                out.writeDouble(((Number) pair._2()).doubleValue() / scale);
            }
        }
    }

    @SuppressWarnings("unchecked")
    private static <T> T cast(Object any) {
        return (T) any;
    }
}
