package io.fluxgate;

import jakarta.servlet.DispatcherType;
import jakarta.servlet.Servlet;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import org.apache.catalina.Context;
import org.apache.catalina.LifecycleException;
import org.apache.catalina.Wrapper;
import org.apache.catalina.connector.Connector;
import org.apache.catalina.startup.Tomcat;
import org.apache.coyote.http2.Http2Protocol;
import org.apache.tomcat.util.buf.EncodedSolidusHandling;
import org.apache.tomcat.util.descriptor.web.FilterDef;
import org.apache.tomcat.util.descriptor.web.FilterMap;
import org.apache.tomcat.util.modeler.Registry;

/** The servers of the tests: Redis, FluxGate, the harness of the conformance cases, and Tomcat. */
final class Servers {
    static final Path CONFORMANCE = Path.of("../conformance").toAbsolutePath().normalize();
    static final String TOKEN = "token-of-a-gateway";
    static final HttpClient HTTP = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    private static final List<Process> PROCESSES = Collections.synchronizedList(new ArrayList<>());

    static {
        Registry.disableRegistry(); // several Tomcats would have the same names
        Runtime.getRuntime().addShutdownHook(new Thread(() -> PROCESSES.forEach(Process::destroyForcibly)));
    }

    private Servers() { }

    static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket()) {
            socket.bind(new InetSocketAddress("127.0.0.1", 0));
            return socket.getLocalPort();
        }
    }

    static void eventually(String what, Callable<Boolean> holds) throws Exception {
        for (long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(60); System.nanoTime() < until; Thread.sleep(10)) {
            if (holds.call()) return;
        }
        throw new AssertionError("not within a minute: " + what);
    }

    private static Process start(int port, Path folder, String... command) throws Exception {
        Process process = new ProcessBuilder(command).directory(folder.toFile()).redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        PROCESSES.add(process);
        eventually(command[0] + " listens", () -> {
            if (!process.isAlive()) throw new AssertionError(command[0] + " has ended");
            try (Socket socket = new Socket("127.0.0.1", port)) {
                return socket.isConnected();
            } catch (IOException notYet) {
                return false;
            }
        });
        return process;
    }

    static String startRedis() throws Exception {
        int port = freePort();
        Path folder = Files.createTempDirectory("fluxgate-java");
        folder.toFile().deleteOnExit();
        start(port, folder, "redis-server", "--port", String.valueOf(port), "--bind", "127.0.0.1", "--save", "");
        return "redis://127.0.0.1:" + port;
    }

    /** A FluxGate server that can be frozen, killed and started again. */
    static final class Gate {
        final String url;
        private final int port;
        private final String[] command;
        private Process process;

        Gate(String redis, String... settings) throws Exception {
            port = freePort();
            url = "http://127.0.0.1:" + port;
            List<String> all = new ArrayList<>(List.of(Path.of("build/fluxgate").toAbsolutePath().toString(), "serve", "--config", "fluxgate.yaml"));
            List<String> sets = new ArrayList<>(List.of("rules.file=rules.yaml", "server.http=127.0.0.1:" + port, "redis.uri=" + redis, "log.level=error"));
            sets.addAll(Arrays.asList(settings));
            for (String set : sets) all.addAll(List.of("--set", set));
            command = all.toArray(String[]::new);
            start();
        }

        void start() throws Exception {
            process = Servers.start(port, CONFORMANCE, command);
        }

        void signal(String name) throws Exception {
            if (new ProcessBuilder("kill", "-" + name, String.valueOf(process.pid())).start().waitFor() != 0) throw new AssertionError("kill has failed");
        }

        void kill() throws Exception {
            process.destroyForcibly().waitFor();
        }
    }

    static String startHarness() throws Exception {
        int port = freePort();
        start(port, CONFORMANCE, Path.of("build/harness").toAbsolutePath().toString(), "127.0.0.1:" + port, "cases.json");
        return "http://127.0.0.1:" + port;
    }

    static HttpResponse<String> get(String url, String... headers) {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url));
        if (headers.length > 0) request.headers(headers);
        return send(request.build());
    }

    static HttpResponse<String> send(HttpRequest request) {
        try {
            return HTTP.send(request, HttpResponse.BodyHandlers.ofString());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** What a server sends back for these bytes, until it closes the connection. */
    static String raw(int port, String bytes) throws IOException {
        try (Socket socket = new Socket("127.0.0.1", port)) {
            socket.setSoTimeout(60_000);
            socket.getOutputStream().write(bytes.getBytes(java.nio.charset.StandardCharsets.ISO_8859_1));
            try (InputStream in = socket.getInputStream()) {
                return new String(in.readAllBytes(), java.nio.charset.StandardCharsets.UTF_8);
            }
        }
    }

    /** An app on Tomcat. */
    static final class App implements AutoCloseable {
        final Context context;
        private final Tomcat tomcat = new Tomcat();
        private final Connector connector = new Connector();

        App(FluxGateFilter filter, boolean http2) throws Exception {
            Path folder = Files.createTempDirectory("fluxgate-tomcat");
            folder.toFile().deleteOnExit();
            tomcat.setBaseDir(folder.toString());
            connector.setPort(0);
            connector.setProperty("address", "127.0.0.1");
            connector.setProperty("maxThreads", "100");
            connector.setEncodedSolidusHandling(EncodedSolidusHandling.PASS_THROUGH.getValue());
            if (http2) connector.addUpgradeProtocol(new Http2Protocol());
            tomcat.setConnector(connector);
            context = tomcat.addContext("", folder.toString());
            if (filter == null) return;
            FilterDef def = new FilterDef();
            def.setFilterName("fluxgate");
            def.setFilter(filter);
            def.setAsyncSupported("true");
            context.addFilterDef(def);
            FilterMap map = new FilterMap();
            map.setFilterName("fluxgate");
            map.addURLPattern("/*");
            for (DispatcherType type : DispatcherType.values()) map.setDispatcher(type.name());
            context.addFilterMap(map);
        }

        App servlet(String pattern, Servlet servlet) {
            Wrapper wrapper = Tomcat.addServlet(context, pattern, servlet);
            wrapper.setAsyncSupported(true);
            wrapper.addMapping(pattern);
            return this;
        }

        App start() throws LifecycleException {
            tomcat.start();
            return this;
        }

        int port() {
            return connector.getLocalPort();
        }

        String url() {
            return "http://127.0.0.1:" + port();
        }

        @Override
        public void close() throws LifecycleException {
            tomcat.stop();
            tomcat.destroy();
        }
    }
}
