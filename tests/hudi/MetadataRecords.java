// Compiled in the JVM of a test by Spark's own compiler: what Hudi itself reads from a metadata table, all records of a
// partition into one file, because a call for each record would take minutes. Entries are written as (int32 length,
// bytes) for the key and for the record in Avro, by the newest schema.

import java.io.*;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.IndexedRecord;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.EncoderFactory;
import org.apache.hudi.avro.model.HoodieMetadataRecord;
import org.apache.hudi.common.data.HoodieListData;
import org.apache.hudi.common.model.HoodieRecord;
import org.apache.hudi.metadata.FilesIndexRawKey;
import org.apache.hudi.metadata.HoodieBackedTableMetadata;
import org.apache.hudi.metadata.HoodieMetadataPayload;

public class MetadataRecords {
  public String schema() {
    return HoodieMetadataRecord.getClassSchema().toString();
  }

  public void dump(Object table, String partition, String target) throws Exception {
    HoodieBackedTableMetadata metadata = (HoodieBackedTableMetadata) table;
    // Every key starts with nothing, and this kind of key is looked for as it is.
    List prefixes = Collections.singletonList(new FilesIndexRawKey(""));
    List found = metadata.getRecordsByKeyPrefixes(HoodieListData.eager(prefixes), partition, true).collectAsList();
    DataOutputStream out = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(target)));
    GenericDatumWriter writer = new org.apache.avro.specific.SpecificDatumWriter(HoodieMetadataRecord.getClassSchema());
    for (Iterator each = found.iterator(); each.hasNext(); ) {
      HoodieRecord record = (HoodieRecord) each.next();
      HoodieMetadataPayload payload = (HoodieMetadataPayload) record.getData();
      ByteArrayOutputStream bytes = new ByteArrayOutputStream();
      BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(bytes, null);
      writer.write((IndexedRecord) payload.getInsertValue(null).get(), encoder);
      encoder.flush();
      byte[] key = record.getRecordKey().getBytes("UTF-8");
      out.writeInt(key.length);
      out.write(key);
      out.writeInt(bytes.size());
      bytes.writeTo(out);
    }
    out.close();
  }
}
