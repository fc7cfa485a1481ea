// Compiled in the JVM of a test by Spark's own compiler: HBase's reader and writer, as Hudi 0.14 to 1.0 use them. Entries
// are exchanged as (int32 length, bytes) for key and value.

import java.io.*;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hudi.io.storage.HoodieHBaseKVComparator;
import org.apache.hudi.org.apache.hadoop.hbase.Cell;
import org.apache.hudi.org.apache.hadoop.hbase.KeyValue;
import org.apache.hudi.org.apache.hadoop.hbase.io.compress.Compression;
import org.apache.hudi.org.apache.hadoop.hbase.io.hfile.*;
import org.apache.hudi.org.apache.hadoop.hbase.util.ChecksumType;

public class HBaseHFiles {
  public void write(String entries, String hfile, int blockBytes, String codec, int indexBytes, String checksum)
      throws Exception {
    Configuration conf = new Configuration();
    conf.setInt("hfile.index.block.max.size", indexBytes);
    HFileContext context = new HFileContextBuilder()
        .withBlockSize(blockBytes)
        .withCompression(Compression.Algorithm.valueOf(codec))
        .withChecksumType(ChecksumType.valueOf(checksum))
        .withCellComparator(new HoodieHBaseKVComparator())
        .build();
    Path path = new Path(hfile);
    DataInputStream in = new DataInputStream(new BufferedInputStream(new FileInputStream(entries)));
    HFile.Writer writer = HFile.getWriterFactory(conf, new CacheConfig(conf))
        .withPath(path.getFileSystem(conf), path)
        .withFileContext(context)
        .create();
    while (in.available() > 0) {
      byte[] key = take(in);
      writer.append(new KeyValue(key, null, null, take(in)));
    }
    writer.appendFileInfo("schema".getBytes("UTF-8"), "{}".getBytes("UTF-8"));
    writer.appendMetaBlock("bloomFilter", new BytesWritable("AAAA".getBytes("UTF-8")));
    writer.close();
    in.close();
  }

  public long scan(String hfile, String entries) throws Exception {
    HFile.Reader reader = open(hfile);
    DataOutputStream out = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(entries)));
    HFileScanner scanner = reader.getScanner(false, true);
    boolean more = scanner.seekTo();
    while (more) {
      Cell found = scanner.getCell();
      out.writeInt(found.getRowLength());
      out.write(found.getRowArray(), found.getRowOffset(), found.getRowLength());
      out.writeInt(found.getValueLength());
      out.write(found.getValueArray(), found.getValueOffset(), found.getValueLength());
      more = scanner.next();
    }
    out.close();
    return reader.getEntries();
  }

  // The answer for each key: its code, and the value where it was found.
  public void seek(String hfile, String keys, String answers) throws Exception {
    HFileScanner scanner = open(hfile).getScanner(false, true);
    DataInputStream in = new DataInputStream(new BufferedInputStream(new FileInputStream(keys)));
    DataOutputStream out = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(answers)));
    while (in.available() > 0) {
      // As Hudi does: forward from where it stands, else every seek would walk its block from the start.
      KeyValue key = new KeyValue(take(in), null, null, null);
      int code = scanner.isSeeked() ? scanner.reseekTo(key) : scanner.seekTo(key);
      take(in);
      byte[] value = new byte[0];
      if (code == 0) {
        Cell found = scanner.getCell();
        int start = found.getValueOffset();
        value = java.util.Arrays.copyOfRange(found.getValueArray(), start, start + found.getValueLength());
      }
      out.writeInt(4);
      out.writeInt(code);
      out.writeInt(value.length);
      out.write(value);
    }
    in.close();
    out.close();
  }

  private static HFile.Reader open(String hfile) throws Exception {
    Configuration conf = new Configuration();
    Path path = new Path(hfile);
    return HFile.createReader(path.getFileSystem(conf), path, new CacheConfig(conf), true, conf);
  }

  private static byte[] take(DataInputStream in) throws Exception {
    byte[] bytes = new byte[in.readInt()];
    in.readFully(bytes);
    return bytes;
  }
}
