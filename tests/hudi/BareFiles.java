import java.lang.reflect.Method;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

// Hadoop's local files, with the permissions that the operating system gives to new ones. Without its native library
// Hadoop starts a process for each file and folder that it makes, to set these permissions once more.
public class BareFiles extends RawLocalFileSystem {
    public void setPermission(Path path, FsPermission permission) {}

    // Takes the place of Hadoop's own, for all that this JVM opens from now on.
    public void install(Configuration conf) throws Exception {
        URI local = URI.create("file:///");
        FileSystem files = new LocalFileSystem(new BareFiles());
        files.initialize(local, conf);
        Method add = FileSystem.class.getDeclaredMethod(
            "addFileSystemForTesting", new Class[] {URI.class, Configuration.class, FileSystem.class});
        add.setAccessible(true);
        add.invoke(null, new Object[] {local, conf, files});
    }
}
