import java.io.FileInputStream;
import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/** Iceberg's reference REST catalog on a loopback port; its own main class can only listen on every interface. */
public class LoopbackCatalog {
    public static void main(String[] args) throws Exception {
        InetSocketAddress address = new InetSocketAddress(args[0], Integer.parseInt(args[1]));
        Catalog catalog = CatalogUtil.buildIcebergCatalog("backend", properties(args[2]), new Configuration());
        ServletContextHandler context = new ServletContextHandler();
        context.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
        Server server = new Server(address);
        server.setHandler(context);
        server.start();
        server.join();
    }

    private static Map<String, String> properties(String path) throws Exception {
        Properties read = new Properties();
        FileInputStream file = new FileInputStream(path);
        read.load(file);
        file.close();
        Map<String, String> properties = new HashMap<String, String>();
        for (Object name : read.keySet()) {
            properties.put((String) name, read.getProperty((String) name));
        }
        return properties;
    }
}
