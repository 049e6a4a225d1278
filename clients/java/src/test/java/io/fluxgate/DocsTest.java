package io.fluxgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.servlet.ServletContext;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.File;
import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.regex.Pattern;
import javax.tools.ToolProvider;
import javax.xml.parsers.DocumentBuilderFactory;
import org.junit.jupiter.api.Test;
import org.w3c.dom.Document;

/** The page about clients, and what is published. */
class DocsTest {
    /** The examples compile, and do what the page says. The bean needs Spring, which is not here. */
    @Test
    void examples() throws Exception {
        String page = Files.readString(Path.of("../../docs/clients.md"));
        List<String> blocks = Pattern.compile("(?s)```java\n(.*?)```").matcher(page).results().map(match -> match.group(1)).toList();
        assertEquals(3, blocks.size());
        assertTrue(blocks.get(2).startsWith("@Bean"));
        String url = new Servers.Gate(Servers.startRedis()).url;
        Path folder = Files.createTempDirectory("fluxgate-docs");
        Path source = folder.resolve("Example.java");
        Files.writeString(source, """
                import io.fluxgate.*;
                import jakarta.servlet.*;
                import java.util.*;
                import java.util.concurrent.*;

                public class Example {
                    public static List<Object> call(String token) {
                %s
                        return List.of(decision, later.join(), gate);
                    }

                    public static void register(FluxGate gate, ServletContext servletContext) {
                %s
                    }
                }
                """.formatted(blocks.get(0).replace("http://127.0.0.1:8080", url).replace(".token(token)", ".token(token).timeout(java.time.Duration.ofMinutes(1))"), blocks.get(1)));
        String path = System.getProperty("java.class.path");
        assertEquals(0, ToolProvider.getSystemJavaCompiler().run(null, null, null, "-Xlint:all,-path", "-Werror", "-proc:none", "-cp", path, "-d", folder.toString(), source.toString()));
        try (URLClassLoader loader = new URLClassLoader(new URL[] {folder.toUri().toURL()})) {
            Class<?> example = loader.loadClass("Example");
            List<?> results = (List<?>) example.getMethod("call", String.class).invoke(null, Servers.TOKEN);
            assertEquals("ok", ((Decision) results.get(0)).reason());
            assertEquals(true, results.get(1));
            FluxGate gate = (FluxGate) results.get(2);
            assertEquals(8, gate.check(new CheckRequest().userId("ada").path("/api/orders").peek(true)).remaining());
            filter((servletContext) -> example.getMethod("register", FluxGate.class, ServletContext.class).invoke(null, gate, servletContext));
        }
        try (var files = Files.walk(folder)) {
            files.sorted(java.util.Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
        }
    }

    private interface Register {
        void in(ServletContext context) throws ReflectiveOperationException;
    }

    private static final class Hello extends HttpServlet {
        private static final long serialVersionUID = 1;

        @Override
        protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
            response.getWriter().print(((Reservation) request.getAttribute(FluxGateFilter.RESERVATION)).decision().allowed());
        }
    }

    private static void filter(Register register) throws Exception {
        try (Servers.App app = new Servers.App(null, false).servlet("/*", new Hello())) {
            CompletableFuture<Void> registered = new CompletableFuture<>();
            app.context.addServletContainerInitializer((classes, context) -> {
                try {
                    register.in(context);
                    registered.complete(null);
                } catch (ReflectiveOperationException e) {
                    registered.completeExceptionally(e);
                }
            }, Set.of());
            app.start();
            registered.get();
            assertEquals("true", Servers.get(app.url() + "/api/orders").body());
            assertEquals(403, Servers.get(app.url() + "/blocked").statusCode());
        }
    }

    @Test
    void published() throws Exception {
        Document pom = DocumentBuilderFactory.newInstance().newDocumentBuilder().parse(new File("pom.xml"));
        // Maven Central requires these.
        for (String name : List.of("groupId", "artifactId", "version", "name", "description", "url", "licenses", "developers", "scm")) {
            assertEquals("project", pom.getElementsByTagName(name).item(0).getParentNode().getNodeName(), name);
        }
        assertEquals(1, pom.getElementsByTagName("dependency").getLength());
        assertEquals("provided", pom.getElementsByTagName("scope").item(0).getTextContent());
        assertTrue(Files.size(Path.of("build/fluxgate-client.jar")) <= 60 << 10, "the jar is larger than 60 KB");
    }
}
