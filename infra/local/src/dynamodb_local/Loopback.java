import java.lang.reflect.Array;
import java.net.InetSocketAddress;

/**
 * DynamoDB Local on 127.0.0.1. Its own command listens on all addresses and reports its use, and no option changes
 * the first; so its parts are started here, by their names: nothing of the engine is needed to compile this.
 * Arguments: the port, 0 for a free one; a folder for the data, or none to keep them in memory. The tables are the
 * same for all credentials and regions. Prints its port when it is ready.
 */
final class Loopback {
    private static final String ENGINE = "com.amazonaws.services.dynamodbv2.local.server.";
    private static final String HTTP = "org.eclipse.jetty.server.";

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        String folder = arguments.length > 1 ? arguments[1] : null;
        Class<?> handler = Class.forName(HTTP + "Handler");
        Class<?> requests = Class.forName(ENGINE + "LocalDynamoDBRequestHandler");
        Class<?> server = Class.forName(HTTP + "Server");
        Object engine = requests
            .getConstructor(int.class, boolean.class, String.class, boolean.class, boolean.class)
            .newInstance(0, folder == null, folder, true, false);
        Object listener = server.getConstructor(InetSocketAddress.class)
            .newInstance(new InetSocketAddress("127.0.0.1", port));
        Object answers = Class.forName(ENGINE + "LocalDynamoDBServerHandler")
            .getConstructor(Class.forName(ENGINE + "DynamoDBRequestHandler"), String.class)
            .newInstance(engine, null);
        server.getMethod("setHandler", handler).invoke(listener, answers);
        try {
            server.getMethod("start").invoke(listener);
        } catch (Exception e) {
            // Its threads would keep the process alive.
            e.printStackTrace();
            System.exit(1);
        }
        Object connector = Array.get(server.getMethod("getConnectors").invoke(listener), 0);
        Object bound = Class.forName(HTTP + "ServerConnector").getMethod("getLocalPort").invoke(connector);
        System.out.println("listening on " + bound);
        server.getMethod("join").invoke(listener);
    }
}
