
// Compiled in the JVM of a test by Spark's own compiler: the input format by which Hive and Presto read tables of Hudi.

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.ArrayWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.io.Writable;
import org.apache.hadoop.mapred.FileInputFormat;
import org.apache.hadoop.mapred.InputSplit;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.RecordReader;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat;

public class HiveRows {
  public List read(List folders, int columns, Map settings, String reads) throws Exception {
    JobConf job = new JobConf();
    for (Iterator it = settings.entrySet().iterator(); it.hasNext();) {
      Map.Entry entry = (Map.Entry) it.next();
      job.set((String) entry.getKey(), (String) entry.getValue());
    }
    Path[] paths = new Path[folders.size()];
    for (int i = 0; i < paths.length; i++) {
      paths[i] = new Path((String) folders.get(i));
    }
    FileInputFormat.setInputPaths(job, paths);
    HoodieParquetRealtimeInputFormat format = new HoodieParquetRealtimeInputFormat();
    format.setConf(job);
    List rows = new ArrayList();
    InputSplit[] splits = format.getSplits(job, 1);
    for (int i = 0; i < splits.length; i++) {
      RecordReader reader = format.getRecordReader(splits[i], new JobConf(job), Reporter.NULL);
      if (!reader.getClass().getSimpleName().equals(reads)) {
        throw new IllegalStateException("read by " + reader.getClass());
      }
      NullWritable key = (NullWritable) reader.createKey();
      ArrayWritable value = (ArrayWritable) reader.createValue();
      while (reader.next(key, value)) {
        Writable[] found = value.get();
        List row = new ArrayList();
        for (int at = 0; at < columns; at++) {
          row.add(found[at] == null ? null : found[at].toString());
        }
        rows.add(row);
      }
      reader.close();
    }
    return rows;
  }
}
