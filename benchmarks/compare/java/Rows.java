package bench;

import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.Iterator;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.types.Row;

/** Writes the rows of a result as lines of JSON: PyFlink takes a millisecond for each. */
public final class Rows {
    /** Writes a list for each row: its kind as +I, -U, +U or -D, then its fields; times are ms since the epoch. */
    public static void write(Iterator<Row> rows, String path) throws IOException {
        ObjectMapper mapper = new ObjectMapper();
        try (BufferedWriter to = Files.newBufferedWriter(Path.of(path))) {
            while (rows.hasNext()) {
                Row row = rows.next();
                ArrayNode line = mapper.createArrayNode();
                line.add(row.getKind().shortString());
                for (int i = 0; i < row.getArity(); i++) {
                    line.addPOJO(plain(row.getField(i)));
                }
                to.write(mapper.writeValueAsString(line));
                to.newLine();
            }
        }
    }

    private static Object plain(Object value) {
        if (value instanceof LocalDateTime) {
            return ((LocalDateTime) value).toInstant(ZoneOffset.UTC).toEpochMilli();
        }
        return value instanceof Instant ? (Object) ((Instant) value).toEpochMilli() : value;
    }
}
