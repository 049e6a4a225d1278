import "./styles";
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { ApiError } from "./api/client";
import { App } from "./App";
import { start } from "./session";
import { theme } from "./theme";

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      // A refusal stays one. A server that does not answer is asked again by the
      // interval of the screen.
      retry: (failures, error) => failures < 2 && error instanceof ApiError && error.status >= 500,
      retryDelay: 500,
      staleTime: 1000,
    },
  },
});

// Until Mantine has done so: the first picture has the right colours.
document.documentElement.setAttribute("data-mantine-color-scheme", matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

void start();

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    {/* Styles are in app.css alone: the Content-Security-Policy refuses style elements. */}
    <MantineProvider theme={theme} defaultColorScheme="auto" withCssVariables={false} withGlobalClasses={false}>
      <QueryClientProvider client={queries}>
        <App />
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
