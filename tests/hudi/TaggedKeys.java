// Compiled in the JVM of a test by Spark's own compiler: Hudi's indexes asked for many keys at once, as its writers ask
// them. Keys come as lines of partition path and key, and go as lines of key, partition path and file id, by tabs.

import java.io.*;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Properties;
import org.apache.hudi.client.SparkRDDReadClient;
import org.apache.hudi.client.common.HoodieSparkEngineContext;
import org.apache.hudi.common.model.EmptyHoodieRecordPayload;
import org.apache.hudi.common.model.HoodieAvroRecord;
import org.apache.hudi.common.model.HoodieKey;
import org.apache.hudi.common.model.HoodieRecord;
import org.apache.hudi.config.HoodieWriteConfig;
import org.apache.spark.api.java.JavaSparkContext;

public class TaggedKeys {
  private List keys = new ArrayList();

  public int read(String file) throws Exception {
    keys = new ArrayList();
    BufferedReader lines = new BufferedReader(new InputStreamReader(new FileInputStream(file), "UTF-8"));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      int tab = line.indexOf('\t');
      HoodieKey key = new HoodieKey(line.substring(tab + 1), line.substring(0, tab));
      keys.add(new HoodieAvroRecord(key, new EmptyHoodieRecordPayload()));
    }
    lines.close();
    return keys.size();
  }

  // Returns the milliseconds from the opened table to the collected answers.
  public long tag(Object spark, String basePath, String properties, int parts, String target) throws Exception {
    JavaSparkContext context = (JavaSparkContext) spark;
    Properties settings = new Properties();
    settings.load(new StringReader(properties));
    HoodieWriteConfig config = HoodieWriteConfig.newBuilder().withPath(basePath).withProps(settings).build();
    long began = System.nanoTime();
    SparkRDDReadClient client = new SparkRDDReadClient(new HoodieSparkEngineContext(context), config);
    List found = client.tagLocation(context.parallelize(keys, parts)).collect();
    long ended = System.nanoTime();
    PrintWriter out = new PrintWriter(new OutputStreamWriter(new FileOutputStream(target), "UTF-8"));
    for (Iterator each = found.iterator(); each.hasNext(); ) {
      HoodieRecord record = (HoodieRecord) each.next();
      if (record.isCurrentLocationKnown()) {
        String fileId = record.getCurrentLocation().getFileId();
        out.println(record.getRecordKey() + "\t" + record.getPartitionPath() + "\t" + fileId);
      }
    }
    out.close();
    return (ended - began) / 1000000;
  }
}
