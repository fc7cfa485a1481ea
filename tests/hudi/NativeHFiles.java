// Compiled in the JVM of a test by Spark's own compiler: Hudi's native reader and writer, over whole files of entries,
// because a call for each entry would take minutes. Entries are exchanged as (int32 length, bytes) for key and value.

import java.io.*;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Paths;
import org.apache.hudi.io.ByteArraySeekableDataInputStream;
import org.apache.hudi.io.ByteBufferBackedInputStream;
import org.apache.hudi.io.compress.CompressionCodec;
import org.apache.hudi.io.hfile.*;

public class NativeHFiles {
  public void write(String entries, String hfile, int blockBytes, String codec) throws Exception {
    HFileContext context =
        HFileContext.builder().blockSize(blockBytes).compressionCodec(CompressionCodec.valueOf(codec)).build();
    DataInputStream in = new DataInputStream(new BufferedInputStream(new FileInputStream(entries)));
    HFileWriterImpl writer = new HFileWriterImpl(context, new BufferedOutputStream(new FileOutputStream(hfile)));
    while (in.available() > 0) {
      byte[] key = take(in);
      writer.append(new String(key, "UTF-8"), take(in));
    }
    writer.appendFileInfo("schema", "{}".getBytes("UTF-8"));
    writer.appendMetaInfo("bloomFilter", "AAAA".getBytes("UTF-8"));
    writer.close();
    in.close();
  }

  public long scan(String hfile, String entries) throws Exception {
    HFileReaderImpl reader = open(hfile);
    DataOutputStream out = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(entries)));
    boolean more = reader.seekTo();
    while (more) {
      KeyValue found = (KeyValue) reader.getKeyValue().get();
      Key key = found.getKey();
      out.writeInt(key.getContentLength());
      out.write(key.getBytes(), key.getContentOffset(), key.getContentLength());
      out.writeInt(found.getValueLength());
      out.write(found.getBytes(), found.getValueOffset(), found.getValueLength());
      more = reader.next();
    }
    out.close();
    return reader.getNumKeyValueEntries();
  }

  // The answer for each key: its code, and the value where it was found.
  public void seek(String hfile, String keys, String answers) throws Exception {
    HFileReaderImpl reader = open(hfile);
    reader.seekTo();
    DataInputStream in = new DataInputStream(new BufferedInputStream(new FileInputStream(keys)));
    DataOutputStream out = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(answers)));
    while (in.available() > 0) {
      int code = reader.seekTo(new UTF8StringKey(new String(take(in), "UTF-8")));
      take(in);
      byte[] value = new byte[0];
      if (code == 0) {
        KeyValue found = (KeyValue) reader.getKeyValue().get();
        int start = found.getValueOffset();
        value = java.util.Arrays.copyOfRange(found.getBytes(), start, start + found.getValueLength());
      }
      out.writeInt(4);
      out.writeInt(code);
      out.writeInt(value.length);
      out.write(value);
    }
    in.close();
    out.close();
  }

  public String info(String hfile, String name) throws Exception {
    Object found = open(hfile).getMetaInfo(new UTF8StringKey(name)).orElse(null);
    return found == null ? null : new String((byte[]) found, "UTF-8");
  }

  public String metaBlock(String hfile, String name) throws Exception {
    Object found = open(hfile).getMetaBlock(name).orElse(null);
    if (found == null) {
      return null;
    }
    ByteBuffer content = (ByteBuffer) found;
    byte[] bytes = new byte[content.remaining()];
    content.get(bytes);
    return new String(bytes, "UTF-8");
  }

  private static HFileReaderImpl open(String hfile) throws Exception {
    byte[] content = Files.readAllBytes(Paths.get(hfile));
    HFileReaderImpl reader = new HFileReaderImpl(
        new ByteArraySeekableDataInputStream(new ByteBufferBackedInputStream(content)), content.length);
    reader.initializeMetadata();
    return reader;
  }

  private static byte[] take(DataInputStream in) throws Exception {
    byte[] bytes = new byte[in.readInt()];
    in.readFully(bytes);
    return bytes;
  }
}
